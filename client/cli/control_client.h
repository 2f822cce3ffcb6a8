// The control planes of nodes and router, asked over gRPC.
//
// Blocking; any thread.
#pragma once

#include <string>
#include <vector>

#include "client/io/stream.h"
#include "proto/base/time.h"
#include "proto/rpc/router.pb.h"
#include "proto/rpc/store.pb.h"

namespace ember::cli {

Result<rpc::StoreStatus> FetchStoreStatus(const io::Endpoint& grpc, Duration timeout);
Result<rpc::RouterStatus> FetchRouterStatus(const io::Endpoint& grpc, Duration timeout);
// In parallel: one that hangs does not hold up the others. In the order of the addresses.
std::vector<Result<rpc::StoreStatus>> FetchStoreStatuses(const std::vector<io::Endpoint>& grpc,
                                                         Duration timeout);

Result<rpc::PurgeReply> PurgeStore(const io::Endpoint& grpc, const rpc::PurgeRequest& request,
                                   Duration timeout);

}  // namespace ember::cli
