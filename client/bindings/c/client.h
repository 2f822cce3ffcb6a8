// ember_client, and what the sources of its calls share.
#pragma once

#include <cstring>
#include <memory>

#include "client/store_client/store_client.h"

struct ember_client {
  std::unique_ptr<ember::StoreClient> client;
};

namespace ember::c {

// A null array of no elements is fine.
inline bool Missing(const void* array, size_t count) { return array == nullptr && count > 0; }

inline LayoutDigest LayoutAt(const uint8_t* bytes) {
  LayoutDigest layout;
  std::memcpy(layout.data(), bytes, layout.size());
  return layout;
}

}  // namespace ember::c
