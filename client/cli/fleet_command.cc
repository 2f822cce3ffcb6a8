// ember fleet: a router's replicas, seen and changed through its admin API.
#include <cstdio>

#include "client/cli/command.h"
#include "client/cli/fleet_view.h"
#include "client/cli/router_call.h"
#include "client/cli/text.h"

namespace ember::cli {
namespace {

struct FleetFlags {
  std::string admin = EnvironmentOr("EMBER_ADMIN", "127.0.0.1:8090");
  std::string id;
  std::vector<std::string> fields;
  RouterCallFlags call;
  bool json = false;
};

Result<std::string> CallAdmin(const FleetFlags& flags, http::UpstreamRequest request) {
  const Result<http::Origin> admin = http::Origin::Parse(flags.admin);
  if (!admin.ok()) return InvalidError("--admin: " + std::string(admin.status().message()));
  return flags.call.Call(*admin, std::move(request));
}

int Told(const Result<std::string>& text) {
  if (text.ok()) {
    std::printf("%s", text->c_str());
    return kDone;
  }
  Complain(text.status());
  return text.status().code() == StatusCode::kInvalid    ? kWrongUsage
         : text.status().code() == StatusCode::kNotFound ? kMissing
                                                         : kFailed;
}

int List(const FleetFlags& flags) {
  const Result<std::string> json = CallAdmin(flags, {.target = "/admin/replicas"});
  if (!json.ok()) return Told(json);
  return Told(flags.json ? *json + "\n" : FleetText(*json));
}

int Add(const FleetFlags& flags) {
  JsonObject replica;
  replica.Add("id", flags.id);
  for (const std::string& field : flags.fields) {
    const size_t equals = field.find('=');
    if (equals == field.npos) return Complain(InvalidError("\"" + field + "\": NAME=VALUE")), 2;
    replica.Add(field.substr(0, equals), field.substr(equals + 1));
  }
  const std::string body = replica.ToString();
  const Result<std::string> done = CallAdmin(
      flags, {.method = "POST", .target = "/admin/replicas", .headers = {}, .body = body});
  return Told(done.ok() ? Result<std::string>(*done + "\n") : done);
}

int Change(const FleetFlags& flags, const char* method, const char* verb) {
  const Result<std::string> done =
      CallAdmin(flags, {.method = method, .target = "/admin/replicas/" + flags.id + verb});
  return Told(done.ok() ? Result<std::string>(*done + "\n") : done);
}

CLI::App* AddVerb(CLI::App* fleet, const char* name, const char* help, FleetFlags* flags) {
  CLI::App* verb = fleet->add_subcommand(name, help);
  verb->add_option(
          "--admin", flags->admin,
          "Address of the router's --admin, https://HOST:PORT where it has TLS (or $EMBER_ADMIN)")
      ->capture_default_str();
  flags->call.AddTo(verb);
  return verb;
}

}  // namespace

void AddFleetCommand(CLI::App* app, int* exit_code) {
  static FleetFlags flags;
  CLI::App* fleet = app->add_subcommand("fleet", "See and change a router's replicas");
  fleet->require_subcommand(1);
  fleet->footer(
      "The router has to be started with --admin. A replica that a file or DNS names is taken out "
      "there.\n\n"
      "Examples:\n"
      "  ember fleet list\n"
      "  ember fleet add r3 http=10.0.0.7:8000 ranks=2\n"
      "  ember fleet drain r3          no new requests; resume is its end\n"
      "  ember fleet remove r3         gone when its requests have ended\n\n"
      "Exit codes: 0 done, 1 the router does not answer or refuses, 2 wrong usage, 3 no such "
      "replica.");
  CLI::App* list = AddVerb(fleet, "list", "Who is there, and in which state", &flags);
  list->add_flag("--json", flags.json, "The router's own JSON");
  list->callback([exit_code] { *exit_code = List(flags); });
  CLI::App* add = AddVerb(fleet, "add", "A replica joins", &flags);
  add->add_option("id", flags.id, "Its name")->required();
  add->add_option("fields", flags.fields, "http=HOST:PORT and more, as of --replica")->required();
  add->callback([exit_code] { *exit_code = Add(flags); });
  const struct {
    const char* name;
    const char* help;
    const char* method;
    const char* verb;
  } changes[] = {{"drain", "Send it no new requests", "POST", "/drain"},
                 {"resume", "End its drain", "POST", "/resume"},
                 {"remove", "It goes when its requests have ended", "DELETE", ""}};
  for (const auto& change : changes) {
    CLI::App* verb = AddVerb(fleet, change.name, change.help, &flags);
    verb->add_option("id", flags.id, "Its name")->required();
    verb->callback([exit_code, change] { *exit_code = Change(flags, change.method, change.verb); });
  }
}

}  // namespace ember::cli
