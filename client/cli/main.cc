// ember: the command line.
#include <algorithm>
#include <csignal>
#include <cstdio>

#include "client/cli/command.h"
#include "client/cli/sister_program.h"
#include "client/grpc_client/grpc_store_client.h"

namespace {

constexpr char kDescription[] =
    "EmberKV: a tier of KV-cache segments that outlives replicas, and a router that sends each "
    "request\n"
    "where it will finish first.";

constexpr char kFooter[] =
    "Addresses: --stores takes data addresses (7101), --store-grpc and --router-grpc take control\n"
    "addresses (7201, 8081); $EMBER_STORES, $EMBER_STORE_GRPC and $EMBER_ROUTER_GRPC set their "
    "defaults.\n\n"
    "Examples:\n"
    "  ember up                                 a store and a router on loopback; Ctrl-C stops "
    "them\n"
    "  ember status                             what they hold and do; ember top: each second\n"
    "  ember explain                            what every replica would have cost for a request\n"
    "  ember put model.gguf --name smollm2      a file into the store, and\n"
    "  ember get --name smollm2 -o copy.gguf    out of it again, verified\n"
    "  ember bench store                        how fast it is here\n"
    "  ember COMMAND --help                     more of each";

// What the command line says that does not exist: the likelier mistake, though the parser would
// rather speak of what is missing.
std::string FirstUnknown(const CLI::App& root, int argc, char** argv) {
  const CLI::App* app = &root;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    if (word.size() > 1 && word[0] == '-') {
      const std::string flag = word[1] == '-' ? word.substr(0, word.find('=')) : word.substr(0, 2);
      if (app->get_option_no_throw(flag) == nullptr) return "there is no flag " + flag;
      continue;
    }
    const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) continue;  // a positional argument
    const auto next = std::ranges::find(commands, word, &CLI::App::get_name);
    if (next == commands.end()) return "there is no command \"" + word + "\"";
    app = *next;
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  if (std::optional<int> code = ember::cli::BecomeSisterProgram(argv)) return *code;
  std::signal(SIGPIPE, SIG_IGN);
  int exit_code = ember::cli::kDone;
  CLI::App app(kDescription, "ember");
  app.footer(kFooter);
  app.set_version_flag("--version", "ember " EMBER_VERSION);
  app.require_subcommand(1);
  ember::cli::SetGrpcConnect([](auto nodes, const std::string& name, uint32_t copies) {
    return ember::MakeGrpcStoreClient(
        {.nodes = std::move(nodes), .name = name, .tenant = "", .copies = copies});
  });
  ember::cli::AddUpCommand(&app, &exit_code);
  ember::cli::AddStatusCommand(&app, &exit_code);
  ember::cli::AddTopCommand(&app, &exit_code);
  ember::cli::AddFleetCommand(&app, &exit_code);
  ember::cli::AddWatchCommand(&app, &exit_code);
  ember::cli::AddExplainCommand(&app, &exit_code);
  ember::cli::AddPurgeCommand(&app, &exit_code);
  ember::cli::AddFileCommands(&app, &exit_code);
  ember::cli::AddBenchCommand(&app, &exit_code);
  ember::cli::AddSisterPrograms(&app);
  if (argc == 1) {
    std::printf("%s", app.help().c_str());
    return ember::cli::kWrongUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // help or version
  } catch (const CLI::ParseError& e) {
    std::string why = FirstUnknown(app, argc, argv);
    if (why.empty()) why = e.what();
    std::fprintf(stderr, "ember: %s (see ember --help)\n", why.substr(0, why.find('\n')).c_str());
    return ember::cli::kWrongUsage;
  }
  return exit_code;
}
