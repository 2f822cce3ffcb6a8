#include "client/agent/config.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>

namespace ember::agent {
namespace {
constexpr const char* kAbout =
    "ember-agent stands beside one llama-server and gives it a shared KV cache: it answers the "
    "OpenAI API in the engine's place, loads what the stores have of a prompt into one of the "
    "engine's slots before it forwards the request, and pushes what is new afterwards. Without "
    "stores, or when anything is amiss, it forwards all the same.\n\n"
    "Start the engine with: -kvu -fa on --slot-save-path DIR --cache-ram 0 (DIR on tmpfs, the same "
    "as --slot-dir here).\n\n"
    "Example:\n"
    "  ember-agent --replica-id=a --listen=127.0.0.1:8101 --grpc=127.0.0.1:8201 \\\n"
    "    --engine=http://127.0.0.1:8001 --model-file=model.gguf --slot-dir=/dev/shm/slots \\\n"
    "    --stores=127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103\n\n"
    "It also serves /health, /metrics, /ember/requests?limit=N&id=ID (what the last requests cost) "
    "and /ember/held (what the slots hold).";

// The flags as text; Config is what they mean.
struct Flags {
  std::string listen = "127.0.0.1:0";
  std::string grpc = "127.0.0.1:0";
  std::string engine, model_file, slot_dir, replica_id, stores, tenant, salt_file, engine_settings;
  std::string log_level = "info";
  std::string io = "auto";
  uint32_t slots = 0;
  uint32_t max_waiting = 256;
  uint32_t prefetch_mib = 256;
};

void Declare(CLI::App& app, Flags& f) {
  app.add_option("--listen", f.listen, "HTTP address; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--grpc", f.grpc, "gRPC address for routers; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--engine", f.engine, "the llama-server, http://HOST:PORT")->required();
  app.add_option("--model-file", f.model_file,
                 "the GGUF file that the engine runs; its content is "
                 "part of the cache's identity")
      ->required();
  app.add_option("--slot-dir", f.slot_dir, "the engine's --slot-save-path")->required();
  app.add_option("--replica-id", f.replica_id, "name of this replica: letters, digits and . _ -")
      ->required();
  app.add_option("--stores", f.stores, "any nodes of the store, HOST:PORT,...; empty: no store")
      ->expected(0, 1);
  app.add_option("--slots", f.slots, "use that many of the engine's slots; 0: all")
      ->capture_default_str();
  app.add_option("--tenant", f.tenant, "whose cache this is; tenants share nothing");
  app.add_option("--salt-file", f.salt_file,
                 "file whose content is the cache's secret: without it no key can be computed");
  app.add_option(
      "--engine-settings", f.engine_settings,
      "engine flags that change KV and that it can't be asked for (rope scaling, control "
      "vectors), as any text; engines share a cache only if it is the same");
  app.add_option("--max-waiting", f.max_waiting, "requests that may wait for a slot; more get 503")
      ->capture_default_str();
  app.add_option(
         "--prefetch-mib", f.prefetch_mib,
         "memory for what is received from the store ahead of its request's turn; 0: nothing")
      ->capture_default_str();
  app.add_option("--log-level", f.log_level, "trace, debug, info, warn, error or off")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  app.add_option("--io", f.io, "how to speak to stores: auto, uring or epoll")
      ->capture_default_str();
}

Result<http::Origin> Address(const char* flag, const std::string& text, bool any_port) {
  // "host:0" is an address to listen on, but none to connect to.
  const bool zero = any_port && text.ends_with(":0");
  Result<http::Origin> origin =
      http::Origin::Parse(zero ? text.substr(0, text.size() - 1) + "1" : text);
  if (!origin.ok()) return origin.status().WithContext(flag);
  if (zero) origin->port = 0;
  return origin;
}

Status ReadSalt(const std::string& path, std::string* salt) {
  if (path.empty()) return OkStatus();
  std::ifstream file(path, std::ios::binary);
  salt->assign(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) return InvalidError("--salt-file: cannot read " + path);
  if (salt->empty()) return InvalidError("--salt-file: " + path + " is empty or missing");
  return OkStatus();
}

Status ReadStores(const std::string& text, std::vector<io::Endpoint>* out) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) {
      Result<io::Endpoint> store = io::Endpoint::Parse(std::string_view(text).substr(at, end - at));
      if (!store.ok()) return store.status().WithContext("--stores");
      out->push_back(*store);
    }
    at = end + 1;
  }
  return OkStatus();
}

Result<Config> Interpret(const Flags& f) {
  Config out;
  auto listen = Address("--listen", f.listen, true);
  if (!listen.ok()) return listen.status();
  auto grpc = Address("--grpc", f.grpc, true);
  if (!grpc.ok()) return grpc.status();
  auto engine = Address("--engine", f.engine, false);
  if (!engine.ok()) return engine.status();
  auto io_backend = io::ParseBackend(f.io);
  if (!io_backend.ok()) return io_backend.status().WithContext("--io");
  EMBER_RETURN_IF_ERROR(ReadSalt(f.salt_file, &out.salt));
  EMBER_RETURN_IF_ERROR(ReadStores(f.stores, &out.stores));
  if (f.slots > 1024) return InvalidError("--slots: at most 1024");
  if (f.tenant.size() > 256) return InvalidError("--tenant: at most 256 bytes");
  out.listen = *listen;
  out.grpc = *grpc;
  out.engine = *engine;
  out.io_backend = *io_backend;
  out.model_file = f.model_file;
  out.slot_dir = f.slot_dir;
  out.replica_id = f.replica_id;
  out.slots = f.slots;
  out.tenant = f.tenant;
  out.engine_settings = f.engine_settings;
  out.log_level = f.log_level;
  out.max_waiting = f.max_waiting;
  out.prefetch_bytes = size_t{f.prefetch_mib} << 20;
  return out;
}
}  // namespace

Result<std::optional<Config>> Config::FromCommandLine(int argc, char** argv) {
  Flags flags;
  CLI::App app(kAbout, "ember-agent");
  app.set_version_flag("--version", std::string("ember-agent ") + EMBER_VERSION);
  Declare(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    app.exit(e);
    return std::optional<Config>();
  } catch (const CLI::ParseError& e) {
    return InvalidError(e.what());
  }
  Result<Config> config = Interpret(flags);
  if (!config.ok()) return config.status();
  return std::optional<Config>(*std::move(config));
}

}  // namespace ember::agent
