// One question to a router's HTTP port. Blocks; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "client/http/upstream_pool.h"

namespace ember::cli {

// How a router is spoken to.
struct RouterCallFlags {
  void AddTo(CLI::App* app);
  // The body of an answer of the 200s. kInvalid: a file is wrong, or the router says 400, with its
  // words. kNotFound: 404. kUnavailable: it says something else, or nothing.
  Result<std::string> Call(const http::Origin& router, http::UpstreamRequest request) const;

  double timeout_seconds = 10;
  std::string token_file;            // its first line goes along as bearer
  std::string ca, certificate, key;  // PEM files, for https
};

// The message of a router's error, whatever is escaped in it, or the whole text.
std::string RouterErrorText(const std::string& body);

}  // namespace ember::cli
