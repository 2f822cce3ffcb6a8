// ember purge: takes a tenant, a namespace or everything away from the nodes, for ever.
#include <unistd.h>

#include <cstdio>
#include <future>

#include "client/cli/command.h"
#include "client/cli/control_client.h"
#include "client/cli/text.h"
#include "proto/model/kv_namespace.h"

namespace ember::cli {
namespace {

struct PurgeFlags {
  std::string stores = EnvironmentOr(kStoreGrpcVariable, "127.0.0.1:7201");
  std::string tenant;
  std::string ns;
  bool all = false;
  bool yes = false;
  double timeout_seconds = 60;
};

Result<rpc::PurgeRequest> RequestOf(const PurgeFlags& flags) {
  rpc::PurgeRequest request;
  if (!flags.tenant.empty()) request.set_tenant(flags.tenant);
  if (flags.all) request.set_everything(true);
  if (!flags.ns.empty()) {
    NamespaceId ns;
    const Status status = FromHex(flags.ns, ns.bytes);
    if (!status.ok()) return InvalidError("--namespace: 32 hex digits");
    request.set_namespace_id(std::string(AsString(ns.bytes)));
  }
  return request;
}

bool Confirmed(const PurgeFlags& flags) {
  if (!flags.all || flags.yes) return true;
  if (!::isatty(STDIN_FILENO)) {
    std::fprintf(stderr, "ember: --all empties the nodes; say --yes if that is meant\n");
    return false;
  }
  std::printf("This drops everything that %s hold. Type yes to go on: ", flags.stores.c_str());
  std::fflush(stdout);
  char answer[8] = {};
  return std::fgets(answer, sizeof answer, stdin) != nullptr && std::string(answer) == "yes\n";
}

int Purge(const PurgeFlags& flags) {
  Result<std::vector<io::Endpoint>> addresses = ParseEndpoints(flags.stores);
  if (!addresses.ok()) return Complain(addresses.status().WithContext("--store-grpc")), kWrongUsage;
  Result<rpc::PurgeRequest> request = RequestOf(flags);
  if (!request.ok()) return Complain(request.status()), kWrongUsage;
  if (!Confirmed(flags)) return kWrongUsage;
  const auto timeout =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.timeout_seconds));
  std::vector<std::future<Result<rpc::PurgeReply>>> asked;
  for (const io::Endpoint& address : *addresses) {
    asked.push_back(
        std::async(std::launch::async, [&] { return PurgeStore(address, *request, timeout); }));
  }
  int exit_code = kDone;
  for (size_t i = 0; i < asked.size(); ++i) {
    const std::string address = (*addresses)[i].ToString();
    const Result<rpc::PurgeReply> reply = asked[i].get();
    if (!reply.ok()) {
      std::fprintf(stderr, "ember: %s: not purged: %s; purge again when it is back\n",
                   address.c_str(), std::string(reply.status().message()).c_str());
      exit_code = kFailed;
      continue;
    }
    std::printf("%s: purged, %s segments dropped, epoch %s%s\n", address.c_str(),
                CountText(reply->segments()).c_str(), std::to_string(reply->epoch()).c_str(),
                reply->durable() ? ", durable" : "");
  }
  return exit_code;
}

}  // namespace

void AddPurgeCommand(CLI::App* app, int* exit_code) {
  static PurgeFlags flags;
  CLI::App* purge = app->add_subcommand("purge", "Take a tenant, a namespace or everything away");
  purge->footer(
      "What is purged never comes back: not from memory, not from disk, not after a restart. Name "
      "every\n"
      "node: each purges for itself, and one that was down must be asked again.\n\n"
      "Examples:\n"
      "  ember purge --tenant acme --store-grpc 10.0.0.1:7201,10.0.0.2:7201\n"
      "  ember purge --namespace 00112233445566778899aabbccddeeff\n"
      "  ember purge --all --yes\n\n"
      "Exit codes: 0 purged everywhere, 1 not everywhere, 2 wrong usage or not confirmed.");
  purge
      ->add_option("--store-grpc", flags.stores,
                   "Control addresses of the nodes, HOST:PORT,... (or $EMBER_STORE_GRPC)")
      ->capture_default_str();
  CLI::Option_group* scope = purge->add_option_group("scope", "What to take away; one of");
  scope->add_option("--tenant", flags.tenant, "Everything put under this tenant's name");
  scope->add_option("--namespace", flags.ns, "A namespace's id, 32 hex digits");
  scope->add_flag("--all", flags.all, "Everything");
  scope->require_option(1);
  purge->add_flag("--yes", flags.yes, "Do not ask whether --all is meant");
  purge->add_option("--timeout", flags.timeout_seconds, "Seconds to wait for each node")
      ->check(Within(0.1, 3600.0))
      ->capture_default_str();
  purge->callback([exit_code] { *exit_code = Purge(flags); });
}

}  // namespace ember::cli
