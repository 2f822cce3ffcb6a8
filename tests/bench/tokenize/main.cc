// What a prompt's tokens cost: user time of a request, for bodies whose text is known but for its
// last 20 bytes and for bodies that are all new, with the hashes of their blocks.
//   ember_tokenize_bench FOLDER [ROUNDS]
#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "proto/base/random.h"
#include "router/tokenize/local_tokenizer.h"

namespace ember::router {
namespace {

double UserMicroseconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_utime.tv_sec) * 1e6 + static_cast<double>(use.ru_utime.tv_usec);
}

std::string Words(SeededRandom& random, size_t bytes) {
  // Words of all lengths, each seen again now and then, as in real text.
  static std::vector<std::string> lexicon;
  while (lexicon.size() < 20000) {
    std::string word;
    for (uint64_t n = 2 + random.Next() % 9; n > 0; --n)
      word += static_cast<char>('a' + random.Next() % 26);
    lexicon.push_back(std::move(word));
  }
  std::string text;
  while (text.size() < bytes) {
    const uint64_t draw = random.Next();
    text += lexicon[draw % lexicon.size() * (draw >> 32 & 0xff) / 0xff];
    text += draw % 11 == 0 ? ". " : draw % 17 == 0 ? ",\\n" : " ";
  }
  text.resize(bytes);
  while (text.back() == '\\') text.pop_back();
  return text;
}

class Bench {
 public:
  Bench(std::shared_ptr<const ModelTokenizer> tokenizer, int rounds)
      : rounds_(rounds), local_(metrics_, Options()) {
    local_.models().Add("m", std::move(tokenizer));
  }

  void Run(const char* name, size_t bytes, bool cold) {
    SeededRandom random(bytes);
    const std::string text = Words(random, bytes);
    std::vector<std::string> bodies;
    for (int i = 0; i < rounds_; ++i) {
      const std::string tail =
          std::to_string(1000000000u + random.Next() % 1000000000u) + " new tail";
      bodies.push_back(
          R"({"model":"m","stream":true,"max_tokens":8,"messages":[{"role":"user","content":")" +
          (cold ? Words(random, bytes) : text) + tail + "\"}]}");
    }
    size_t blocks = Ask(bodies[0]);
    const double before = UserMicroseconds();
    for (const std::string& body : bodies) blocks = Ask(body);
    std::printf("%-14s %8zu bytes  %8.1f us of user time a prompt, %zu blocks\n", name,
                bodies[0].size(), (UserMicroseconds() - before) / rounds_, blocks);
  }

 private:
  static LocalTokenizerOptions Options() {
    LocalTokenizerOptions options;
    options.deadline = seconds(60);
    options.inline_bytes = 1u << 30;  // on this thread, whose time is counted
    return options;
  }
  size_t Ask(const std::string& body) {
    context_.restart();
    auto answer = boost::asio::co_spawn(context_, local_.Tokenize("/v1/chat/completions", body),
                                        boost::asio::use_future);
    context_.run();
    const LocalTokenizer::Answer got = answer.get();
    if (got.prompt == nullptr) {
      std::fprintf(stderr, "no tokens: %s\n", PromptReasonName(got.reason));
      std::exit(1);
    }
    return got.prompt->ChainIn({.id = {}, .seed = 1, .tokens_per_block = 16}).size();
  }

  const int rounds_;
  MetricsRegistry metrics_;
  boost::asio::io_context context_;
  LocalTokenizer local_;
};

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: ember_tokenize_bench FOLDER [ROUNDS]\n");
    return 2;
  }
  auto tokenizer = ModelTokenizer::Load(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
    return 1;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1000;
  Bench bench(*tokenizer, rounds);
  bench.Run("known, 32 KB", 32 << 10, false);
  bench.Run("known, 256 KB", 256 << 10, false);
  bench.Run("cold, 32 KB", 32 << 10, true);
  return 0;
}

}  // namespace
}  // namespace ember::router

int main(int argc, char** argv) { return ember::router::Main(argc, argv); }
