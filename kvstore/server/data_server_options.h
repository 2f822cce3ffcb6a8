// DataServerOptions: what a data server tells its clients, and how long it waits for them.
#pragma once

#include <string>
#include <vector>

#include "client/io/stream.h"
#include "proto/base/time.h"
#include "proto/wire/limits.h"
#include "proto/wire/messages.h"

namespace ember::kv {

struct DataServerOptions {
  io::Endpoint listen{"127.0.0.1", 0};
  std::string node_id;
  uint64_t incarnation = 0;
  uint64_t view_number = 0;
  std::vector<wire::Member> members;  // of the cluster; empty: only this node
  uint32_t shard = 0;                 // which of the node's this is
  std::string shm_path;               // see wire::HelloReply

  size_t max_connections = wire::kMaxConnections;
  // Messages too large for a connection's own buffer, of all connections together.
  size_t max_large_message_bytes = 64 << 20;
  Duration hello_timeout = seconds(5);    // from accept to a whole hello
  Duration idle_timeout = seconds(1800);  // between frames
  Duration stall_timeout = seconds(20);   // no byte within a frame; no MiB of a reply taken
  Duration frame_timeout = seconds(120);  // a whole frame, payload included
  // How long a peer that broke the protocol may read why, before it is closed.
  Duration farewell_timeout = milliseconds(500);
  Duration sweep_interval = milliseconds(200);  // how often deadlines are looked at
};

}  // namespace ember::kv
