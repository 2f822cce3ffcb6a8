#include "client/http/tls_context.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/ssl/error.hpp>
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

std::string SpanText(int64_t seconds) {
  const int64_t hours = seconds / 3600;
  if (hours >= 48) return std::to_string(hours / 24) + " days";
  return hours >= 2 ? std::to_string(hours) + " hours" : std::to_string(seconds / 60) + " min";
}

// From `a` to `b`, in seconds.
int64_t SpanOf(const ASN1_TIME* a, const ASN1_TIME* b) {
  int days = 0, seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, a, b) != 1) return 0;
  return int64_t{days} * 86'400 + seconds;
}

// What was read is no TLS at all.
bool IsOtherProtocol(const error_code& ec) {
  if (ec.category() != boost::asio::error::get_ssl_category()) return false;
  switch (ERR_GET_REASON(static_cast<unsigned>(ec.value()))) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
    case SSL_R_UNEXPECTED_MESSAGE:
      return true;
    default:
      return false;
  }
}

}  // namespace

TlsContext::TlsContext(ssl::context::method method) : context_(method) {
  error_code ignored;
  context_.set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                           ssl::context::no_tlsv1_1 | ssl::context::no_compression,
                       ignored);
  SSL_CTX_set_mode(context_.native_handle(), SSL_MODE_RELEASE_BUFFERS);  // 34 KiB a connection
}

Status TlsContext::Show(const std::string& certificate, const std::string& key) {
  error_code ec;
  context_.use_certificate_chain_file(certificate, ec);
  EMBER_RETURN_IF_ERROR(Check(ec, "certificate", certificate));
  context_.use_private_key_file(key, ssl::context::pem, ec);
  EMBER_RETURN_IF_ERROR(Check(ec, "key", key));
  // Of another kind than the certificate's it was not compared.
  if (SSL_CTX_check_private_key(context_.native_handle()) != 1) {
    return InvalidError("key \"" + key + "\": it is not that of " + certificate);
  }
  return OkStatus();
}

Result<std::shared_ptr<TlsContext>> TlsContext::ForServer(const TlsServerFiles& files) {
  std::shared_ptr<TlsContext> self(new TlsContext(ssl::context::tls_server));
  ssl::context& c = self->context_;
  EMBER_RETURN_IF_ERROR(self->Show(files.certificate, files.key));
  error_code ec;
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

std::string TlsContext::DoubtAt(std::time_t now) {
  constexpr int64_t kWeek = 7 * 86'400;
  const X509* own = SSL_CTX_get0_certificate(context_.native_handle());
  const std::unique_ptr<ASN1_TIME, decltype(&ASN1_TIME_free)> at(ASN1_TIME_set(nullptr, now),
                                                                 ASN1_TIME_free);
  if (own == nullptr || at == nullptr) return "";
  const ASN1_TIME* begin = X509_get0_notBefore(own);
  const ASN1_TIME* end = X509_get0_notAfter(own);
  const int64_t left = SpanOf(at.get(), end), ahead = SpanOf(at.get(), begin);
  if (left <= 0) return "expired " + SpanText(-left) + " ago";
  if (ahead > 0) return "is not valid for " + SpanText(ahead) + " yet";
  if (left > std::min(kWeek, SpanOf(begin, end) / 5)) return "";
  return "expires in " + SpanText(left);
}

std::time_t TlsContext::ExpiresAt() {
  const X509* own = SSL_CTX_get0_certificate(context_.native_handle());
  std::tm end{};
  if (own == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(own), &end) != 1) return 0;
  return timegm(&end);
}

Result<std::shared_ptr<TlsContext>> TlsContext::ForClient(const TlsClientFiles& files) {
  std::shared_ptr<TlsContext> self(new TlsContext(ssl::context::tls_client));
  ssl::context& c = self->context_;
  error_code ec;
  if (files.ca.empty()) {
    c.set_default_verify_paths(ec);
  } else {
    c.load_verify_file(files.ca, ec);
  }
  EMBER_RETURN_IF_ERROR(Check(ec, "CA", files.ca));
  if (!files.certificate.empty()) {
    EMBER_RETURN_IF_ERROR(self->Show(files.certificate, files.key));
  }
  c.set_verify_mode(ssl::verify_peer, ec);
  SSL_CTX_set_alpn_protos(c.native_handle(), kProtocols, sizeof kProtocols - 1);
  return self;
}

std::string TlsContext::WhyRefused(const SSL* ssl, const error_code& ec, const std::string& name) {
  switch (const long verdict = SSL_get_verify_result(ssl)) {
    case X509_V_OK:
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "its certificate has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "its certificate is not valid yet";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "its certificate does not name \"" + name + "\"";
    default:
      return std::string("its certificate is not trusted: ") +
             X509_verify_cert_error_string(verdict);
  }
  if (IsOtherProtocol(ec)) return "it does not speak TLS; is it plain http?";
  if (ec == ssl::error::stream_truncated || ec == boost::asio::error::eof ||
      ec == boost::asio::error::connection_reset) {
    return "it ended the TLS handshake; does it speak TLS?";
  }
  return "TLS: " + ec.message();
}

}  // namespace ember::http
