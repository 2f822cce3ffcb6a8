// PurgeScope: what a purge takes away: one namespace (a model with an adapter, say), one tenant, or
// everything.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "proto/model/kv_namespace.h"

namespace ember {

// XXH3-64 of SegmentHeader.tenant: eight bytes instead of a name beside every segment. Two tenants
// that share it are purged together.
uint64_t TenantHash(std::string_view tenant);

struct PurgeScope {
  enum class Kind : uint8_t { kEverything = 1, kNamespace = 2, kTenant = 3 };

  Kind kind = Kind::kEverything;
  NamespaceId ns;            // kNamespace only, else zero
  uint64_t tenant_hash = 0;  // kTenant only, else zero

  static PurgeScope Everything() { return {}; }
  static PurgeScope OfNamespace(const NamespaceId& ns) {
    return {.kind = Kind::kNamespace, .ns = ns};
  }
  static PurgeScope OfTenant(std::string_view tenant) {
    return {.kind = Kind::kTenant, .ns = {}, .tenant_hash = TenantHash(tenant)};
  }

  // Whether a segment of this namespace and tenant is within.
  bool Covers(const NamespaceId& segment_ns, uint64_t segment_tenant_hash) const;

  auto operator<=>(const PurgeScope&) const = default;
};

}  // namespace ember
