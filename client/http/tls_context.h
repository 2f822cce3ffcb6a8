// TlsContext: certificates and rules of TLS (1.2 and 1.3) for one listener, or for all upstreams.
// Made once at start, then shared by connections of any thread.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "proto/base/status.h"

namespace ember::http {

// PEM files.
struct TlsServerFiles {
  std::string certificate;  // the chain, the server's own first
  std::string key;
  std::string client_ca;  // not empty: only clients with a certificate of one of these
};

class TlsContext {
 public:
  // kInvalid: a file can't be read, or is not what it should be; with its name.
  static Result<std::shared_ptr<TlsContext>> ForServer(const TlsServerFiles& files);
  // Upstreams must have a certificate of `ca_file`, or of the system's authorities when it is "".
  static Result<std::shared_ptr<TlsContext>> ForClient(const std::string& ca_file);

  boost::asio::ssl::context& native() { return context_; }

 private:
  explicit TlsContext(boost::asio::ssl::context::method method);
  boost::asio::ssl::context context_;
};

}  // namespace ember::http
