#include "client/http/tls_context.h"

#include <openssl/ssl.h>

#include <string_view>

namespace ember::http {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

namespace {

constexpr unsigned char kProtocols[] = "\x08http/1.1";

// HTTP/1.1 where the client offers a choice; a client that offers only others gets no protocol.
int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* offered, unsigned offered_size, void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kProtocols, sizeof kProtocols - 1, offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

Status Check(error_code ec, std::string_view what, const std::string& file) {
  if (!ec) return OkStatus();
  return InvalidError(std::string(what) + " \"" + file + "\": " + ec.message());
}

}  // namespace

TlsContext::TlsContext(ssl::context::method method) : context_(method) {
  error_code ignored;
  context_.set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                           ssl::context::no_tlsv1_1 | ssl::context::no_compression,
                       ignored);
  SSL_CTX_set_mode(context_.native_handle(), SSL_MODE_RELEASE_BUFFERS);  // 34 KiB a connection
}

Result<std::shared_ptr<TlsContext>> TlsContext::ForServer(const TlsServerFiles& files) {
  std::shared_ptr<TlsContext> self(new TlsContext(ssl::context::tls_server));
  ssl::context& c = self->context_;
  error_code ec;
  c.use_certificate_chain_file(files.certificate, ec);
  EMBER_RETURN_IF_ERROR(Check(ec, "certificate", files.certificate));
  c.use_private_key_file(files.key, ssl::context::pem, ec);
  EMBER_RETURN_IF_ERROR(Check(ec, "key", files.key));
  if (!files.client_ca.empty()) {
    c.load_verify_file(files.client_ca, ec);
    EMBER_RETURN_IF_ERROR(Check(ec, "client CA", files.client_ca));
    c.set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, ec);
    // Sessions of clients with certificates are resumed within a context of one name only.
    SSL_CTX_set_session_id_context(c.native_handle(), kProtocols, sizeof kProtocols - 1);
  }
  SSL_CTX_set_alpn_select_cb(c.native_handle(), ChooseProtocol, nullptr);
  return self;
}

Result<std::shared_ptr<TlsContext>> TlsContext::ForClient(const std::string& ca_file) {
  std::shared_ptr<TlsContext> self(new TlsContext(ssl::context::tls_client));
  ssl::context& c = self->context_;
  error_code ec;
  if (ca_file.empty()) {
    c.set_default_verify_paths(ec);
  } else {
    c.load_verify_file(ca_file, ec);
  }
  EMBER_RETURN_IF_ERROR(Check(ec, "CA", ca_file));
  c.set_verify_mode(ssl::verify_peer, ec);
  SSL_CTX_set_alpn_protos(c.native_handle(), kProtocols, sizeof kProtocols - 1);
  return self;
}

}  // namespace ember::http
