// How our errors look to a gRPC caller.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "proto/base/status.h"

namespace ember::kv {

inline grpc::StatusCode GrpcCode(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return grpc::StatusCode::OK;
    case StatusCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case StatusCode::kBusy:
    case StatusCode::kNoSpace:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case StatusCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case StatusCode::kDeadline:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case StatusCode::kCorrupt:
      return grpc::StatusCode::DATA_LOSS;
    case StatusCode::kInvalid:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case StatusCode::kMismatch:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case StatusCode::kCancelled:
      return grpc::StatusCode::UNAVAILABLE;  // the node is stopping
    case StatusCode::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

inline grpc::Status ToGrpc(const Status& status) {
  return {GrpcCode(status.code()), std::string(status.message())};
}

}  // namespace ember::kv
