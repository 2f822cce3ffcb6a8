// ReplicaConfig: one replica as the operator, a file, DNS or the admin API names it. A plain value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/http/origin.h"
#include "proto/base/status.h"

namespace ember::router {

struct ReplicaConfig {
  std::string id;      // letters, digits and "._-", at most 64
  http::Origin http;   // where requests go
  std::string grpc;    // its agent's address; empty: an engine without one
  std::string events;  // tcp:// or ipc:// address of its KV events; empty: it publishes none
  std::string replay;  // where missed events can be asked for; empty: nowhere
  std::string host;    // virtual host: Host header and SNI; empty: those of `http`
  std::vector<std::string> models;  // that it serves, beside its adapters; empty: it is asked
  std::string key;       // API key for our own questions; sent to `http` only, never shown
  std::string key_file;  // where `key` comes from; empty: given as it is
  uint32_t ranks = 0;    // data-parallel ranks behind that address; 0: it is one engine
  uint32_t first_rank = 0;
  double weight = 1;             // its share beside others, (0, 100]
  uint32_t max_concurrency = 0;  // requests at once, all ranks together; 0: no limit

  // "r1,http=127.0.0.1:9001,grpc=127.0.0.1:9002"; kInvalid says what is wrong. Reads no file.
  static Result<ReplicaConfig> Parse(std::string_view text);
  using Field = std::pair<std::string_view, std::string_view>;  // name, value
  // The same from an id and its fields, in any order, each at most once.
  static Result<ReplicaConfig> FromFields(std::string_view id, std::span<const Field> fields);
  // Takes over what may change while requests run there: key, weight and max_concurrency.
  void Tune(const ReplicaConfig& other);
  // `other` differs in nothing else.
  bool MayBecome(const ReplicaConfig& other) const;
  // Fills `key` from `key_file`, if there is one: its first line.
  Status LoadKey();

  bool operator==(const ReplicaConfig&) const = default;
};

}  // namespace ember::router
