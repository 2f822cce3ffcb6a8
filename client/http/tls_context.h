// TlsContext: certificates and rules of TLS (1.2 and 1.3) for one listener, or for all upstreams.
// Made at start, and anew when files changed; then shared, unchanged, by connections of any thread.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <ctime>
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

// PEM files, each "" for none.
struct TlsClientFiles {
  std::string ca;                // whom to believe; none: the system's authorities
  std::string certificate, key;  // to show, for upstreams that ask for it; both or none
};

class TlsContext {
 public:
  // kInvalid: a file can't be read, or is not what it should be; with its name.
  static Result<std::shared_ptr<TlsContext>> ForServer(const TlsServerFiles& files);
  // For connections to upstreams. Errors as of ForServer.
  static Result<std::shared_ptr<TlsContext>> ForClient(const TlsClientFiles& files);

  // What is wrong with a server's own certificate at that time: it "expired 3 days ago", "expires
  // in 5 days" (a week or less is left, and less than a fifth of its life), "is not valid for 2
  // days yet". Empty: nothing.
  std::string DoubtAt(std::time_t now);
  // When that certificate's time is over; 0: not known.
  std::time_t ExpiresAt();

  // Why the handshake with an upstream that had to prove to be `name` failed, for people.
  static std::string WhyRefused(const SSL* ssl, const boost::system::error_code& ec,
                                const std::string& name);

  boost::asio::ssl::context& native() { return context_; }

 private:
  explicit TlsContext(boost::asio::ssl::context::method method);
  // Our own certificate.
  Status Show(const std::string& certificate, const std::string& key);

  boost::asio::ssl::context context_;
};

}  // namespace ember::http
