// MakeGrpcStoreClient: the StoreClient over gRPC, for where the nodes' data ports can't be reached.
// Slower than the framed data plane; the same placement, fail-over, verification and answers.
//
// Concurrency and life: as StoreClient says; each call asks its owners on threads of its own.
#pragma once

#include "client/store_client/store_client.h"

namespace ember {

struct GrpcStoreClientOptions {
  std::vector<io::Endpoint> nodes;  // gRPC addresses of all nodes of the cluster
  std::string name = "client";      // as the writer of segments
  std::string tenant;               // of what is put
  uint32_t copies = 2;              // at first write; 1 to kMaxCopies
};

// kInvalid: bad options. Nodes that can't be reached now are tried again by later calls.
Result<std::unique_ptr<StoreClient>> MakeGrpcStoreClient(GrpcStoreClientOptions options);

}  // namespace ember
