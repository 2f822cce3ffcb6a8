#include "router/http_flags.h"

#include "client/http/tls_context.h"

namespace ember::router {
namespace {

Status InterpretTls(const HttpFlags& f, ServiceOptions* out) {
  if (f.tls_cert.empty() != f.tls_key.empty()) {
    return InvalidError("--tls-cert and --tls-key go together");
  }
  if (f.tls_cert.empty() && !f.tls_client_ca.empty()) {
    return InvalidError("--tls-client-ca needs --tls-cert");
  }
  if (!f.tls_cert.empty()) {
    out->tls_files = {.certificate = f.tls_cert, .key = f.tls_key, .client_ca = f.tls_client_ca};
    const auto tls = http::TlsContext::ForServer(*out->tls_files);
    if (!tls.ok()) return tls.status().WithContext("--tls-...");
  }
  if (!f.upstream_ca.empty()) {
    auto tls = http::TlsContext::ForClient({.ca = f.upstream_ca});
    if (!tls.ok()) return tls.status().WithContext("--upstream-ca");
    out->upstream.tls = *std::move(tls);
  }
  return OkStatus();
}

}  // namespace

void HttpFlags::Declare(CLI::App& app) {
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.add_option("--tls-cert", tls_cert,
                 "PEM chain: the listener, and that of --admin, speak TLS only. SIGHUP reads it "
                 "again, and the "
                 "next two");
  app.add_option("--tls-key", tls_key, "its PEM key");
  app.add_option("--tls-client-ca", tls_client_ca,
                 "PEM: only clients with a certificate of one of these");
  app.add_option("--upstream-ca", upstream_ca,
                 "PEM authorities of https:// replicas; absent: the system's");
  app.add_option("--allow-path", allowed_paths,
                 "further path of the engines, with all below it; repeat for each. Served anyway: "
                 "the paths of OpenAI's, Anthropic's and rerank APIs, tokenize, pooling");
  app.add_option("--cors-origin", cors_origins,
                 "https://page.example, or *: web pages from there may call the API; repeat for "
                 "each. None: what engines say to browsers goes back to them");
  app.add_option("--max-connections", max_connections,
                 "client connections; more get 503 [10000, or what descriptors allow]")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20));
  option("--max-replica-connections", max_replica_connections,
         "connections to one replica; requests beyond go to others")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20));
  option("--max-header-kib", max_header_kib, "request line and header fields; more gets 431")
      ->check(CLI::Range(size_t{1}, size_t{1024}));
  option("--max-body-mib", max_body_mib, "largest request body; more gets 413")
      ->check(CLI::Range(size_t{1}, size_t{1024}));
  option("--max-buffered-mib", max_buffered_mib, "request bodies held together; more get 503")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20));
  option("--max-choices", fan_out.choices, "a request's n and best_of; more gets 400")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20));
  option("--max-stops", fan_out.stops, "a request's stop sequences; more gets 400")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20));
  const auto time = [&](const char* name, int& value, const char* help) {
    option(name, value, help)->check(CLI::Range(1, 86'400'000));
  };
  time("--header-timeout-ms", header_timeout_ms,
       "from a connection or a request's first byte to its last header byte; then 408");
  time("--body-timeout-ms", body_timeout_ms,
       "without a byte of a request's body; also for the whole of it, plus 1 s for each 256 bytes");
  time("--keep-alive-timeout-ms", keep_alive_timeout_ms, "without another request");
  time("--write-timeout-ms", write_timeout_ms,
       "while a reply waits for its client: without its taking a byte, or behind --min-read-rate");
  option("--min-read-rate", min_read_rate,
         "bytes a second of a reply that waits for its client; who takes less is gone after "
         "--write-timeout-ms. 0: any")
      ->check(CLI::Range(size_t{0}, size_t{1} << 30));
}

Status HttpFlags::Interpret(ServiceOptions* out) const {
  EMBER_RETURN_IF_ERROR(InterpretTls(*this, out));
  for (const std::string& path : allowed_paths) {
    if (!ServedPaths::IsPrefix(path)) {
      return InvalidError("--allow-path: \"" + path.substr(0, 100) +
                          "\" is not /segment/... without escapes and dot segments");
    }
    if (ServedPaths::IsOwn(path)) {
      return InvalidError("--allow-path: what is at \"" + path.substr(0, 100) +
                          "\" is the router's own");
    }
  }
  out->allowed_paths = allowed_paths;
  for (const std::string& origin : cors_origins) {
    if (!Cors::IsOrigin(origin)) {
      return InvalidError(
          "--cors-origin: \"" + origin.substr(0, 100) +
          "\" is neither * nor as browsers write it: https://page.example, in small "
          "letters, without https's 443 or http's 80");
    }
  }
  out->cors_origins = cors_origins;
  out->server.max_connections = max_connections;
  out->upstream.max_connections_per_origin = max_replica_connections;
  out->server.max_header_bytes = max_header_kib << 10;
  out->server.max_body_bytes = max_body_mib << 20;
  out->server.max_buffered_bytes = max_buffered_mib << 20;
  out->router.fan_out = fan_out;
  out->server.header_timeout = milliseconds(header_timeout_ms);
  out->server.body_timeout = milliseconds(body_timeout_ms);
  out->server.idle_timeout = milliseconds(keep_alive_timeout_ms);
  out->server.write_timeout = milliseconds(write_timeout_ms);
  out->server.min_read_rate = min_read_rate;
  return OkStatus();
}

}  // namespace ember::router
