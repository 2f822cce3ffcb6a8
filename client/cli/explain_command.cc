// ember explain: why a request went where it did, or would.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "client/cli/command.h"
#include "client/cli/explain_view.h"
#include "client/cli/router_call.h"
#include "client/cli/text.h"

namespace ember::cli {
namespace {

struct ExplainFlags {
  std::string id;
  std::string router = EnvironmentOr("EMBER_ROUTER", "127.0.0.1:8080");
  std::string request;
  std::string path;
  std::string policy;
  size_t count = 5;
  RouterCallFlags call;
  bool verify = false;
  bool json = false;
};

Result<std::string> ReadRequest(const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream in(file, std::ios::binary);
  if (!in) return NotFoundError("can't read " + file);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

int Explain(const ExplainFlags& flags) {
  const Result<http::Origin> router = http::Origin::Parse(flags.router);
  if (!router.ok()) return Complain(router.status().WithContext("--router")), kWrongUsage;
  if (!flags.id.empty() && !flags.request.empty()) {
    return Complain(InvalidError("an id or --request, not both")), kWrongUsage;
  }
  if (flags.verify && flags.request.empty()) {
    return Complain(InvalidError("--verify goes with --request")), kWrongUsage;
  }
  http::UpstreamRequest request{.target = "/admin/explain"};
  Result<std::string> body = std::string();
  if (!flags.request.empty()) {
    body = ReadRequest(flags.request);
    if (!body.ok()) return Complain(body.status());
    request.method = "POST";
    request.body = *body;
    if (flags.verify) request.target += "?verify=1";
    if (!flags.path.empty()) request.target += (flags.verify ? "&path=" : "?path=") + flags.path;
    if (!flags.policy.empty()) request.headers.Add("x-ember-policy", flags.policy);
  } else if (!flags.id.empty()) {
    request.target += "?id=" + flags.id;
  } else {
    request.target += "?n=" + std::to_string(flags.count);
  }
  const Result<std::string> json = flags.call.Call(*router, std::move(request));
  if (!json.ok()) return Complain(json.status());
  Result<std::string> text =
      flags.request.empty() ? ExplainedText(*json) : ExplainedRequestText(*json);
  if (!text.ok()) {
    Complain(text.status());
    return text.status().code() == StatusCode::kNotFound ? kMissing : kFailed;
  }
  std::printf("%s%s", (flags.json ? *json : *text).c_str(), flags.json ? "\n" : "");
  return kDone;
}

}  // namespace

void AddExplainCommand(CLI::App* app, int* exit_code) {
  static ExplainFlags flags;
  CLI::App* explain =
      app->add_subcommand("explain", "Show what every replica would have cost for a request");
  explain->footer(
      "The replica marked * was (or would be) chosen: the least cost, in ms, of queue + load + "
      "prefill (the\n"
      "predicted TTFT), the risk of a slow load, work lost by what is evicted, work gained by what "
      "is learned,\n"
      "and what others wait for it. On device and any tier say how much of the prompt it holds, "
      "used how "
      "much of\n"
      "that counts, from store what it would load.\n\n"
      "Examples:\n"
      "  ember explain                                the newest requests\n"
      "  ember explain 5f0c...                        one, by its x-ember-request-id\n"
      "  ember explain --request chat.json            where it would go; nothing is sent\n"
      "  ember explain --request chat.json --verify   and what the replicas say that they hold\n"
      "  echo '{\"prompt\":\"Hi\"}' | ember explain --request - --policy prefix\n\n"
      "Exit codes: 0 done, 1 the router does not answer or refuses, 2 wrong usage, 3 no such "
      "request.");
  explain->add_option("id", flags.id, "x-ember-request-id of a reply");
  explain
      ->add_option("--router", flags.router,
                   "HTTP address of the router, or of its --admin; https://HOST:PORT for TLS (or "
                   "$EMBER_ROUTER)")
      ->capture_default_str();
  explain->add_option("--request", flags.request, "File with a request's body, or - for stdin");
  explain->add_option("--path", flags.path,
                      "Its path; by default /v1/chat/completions when it has messages, else "
                      "/v1/completions");
  explain->add_option("--policy", flags.policy, "Its policy; by default the router's");
  explain->add_option("-n", flags.count, "How many of the newest")->capture_default_str();
  flags.call.AddTo(explain);
  explain->add_flag("--verify", flags.verify,
                    "Ask the replicas' agents how much of it they and the store hold");
  explain->add_flag("--json", flags.json, "The router's own JSON");
  explain->callback([exit_code] { *exit_code = Explain(flags); });
}

}  // namespace ember::cli
