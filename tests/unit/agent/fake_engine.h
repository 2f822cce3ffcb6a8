// FakeEngine: a scripted llama-server over real HTTP and real slot files, with a tiny model: a
// token is a byte, and a KV row is a function of all tokens up to its own. So it notices any KV
// that does not belong where it was restored.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "client/agent/slot_file.h"
#include "client/http/server.h"

namespace ember::agent {

class FakeEngine {
 public:
  static constexpr uint32_t kSlots = 2;

  // `folder`: its --slot-save-path. Listens at once.
  FakeEngine(std::string folder, std::string model_path);
  ~FakeEngine();

  uint16_t port() const { return port_; }
  // As after KILL -9: connections are cut, slots are empty. Start listens on the same port.
  void Kill();
  void Start();

  struct Faults {
    bool refuse_restore = false;   // 400, with half-loaded KV left in the slot
    bool restore_nothing = false;  // 200, but the slot is empty
    bool refuse_save = false;
    bool refuse_tokenize = false;
    bool hold_tokenize = false;   // it answers only when this is over
    bool save_elsewhere = false;  // 200, but the file is in another folder
    bool adapters = false;
    bool cut_reply = false;  // completions break off after their first bytes
    bool hold = false;       // completions make no first byte until this is over
    Duration think = {};     // before a completion's first byte
    Duration save_time = {};
  };
  void Set(Faults faults);

  struct Completion {
    std::string path;
    std::string body;
    uint32_t slot = 0;
    size_t cached = 0;
    size_t computed = 0;
  };
  std::vector<Completion> completions() const;
  // How many calls of an own endpoint there were: "tokenize", "save", "restore", "erase".
  int calls(const std::string& what) const;
  // True when a completion was built on KV that is not its prefix's.
  bool corrupted() const { return corrupted_; }
  size_t aborted() const { return aborted_; }
  // What a completion of that prompt answers, however it was computed.
  static std::string AnswerTo(const std::string& prompt);

 private:
  struct Slot {
    std::vector<TokenId> tokens;
    std::vector<uint64_t> kv;
    bool busy = false;
  };
  boost::asio::awaitable<void> Handle(http::Request& request, http::ResponseWriter& writer);
  boost::asio::awaitable<void> Complete(http::Request& request, http::ResponseWriter& writer);
  boost::asio::awaitable<void> SlotAction(http::Request& request, http::ResponseWriter& writer);
  std::string Save(const Slot& slot, const std::string& file);
  bool Restore(Slot& slot, const std::string& file);
  Faults faults() const;
  void Count(const std::string& what);

  const std::string folder_;
  const std::string model_path_;
  http::HttpLoop loop_{1};
  std::unique_ptr<http::HttpServer> server_;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  Faults faults_;
  std::vector<Completion> completions_;
  std::map<std::string, int> calls_;
  std::vector<Slot> slots_{kSlots};  // the loop's thread, or while no server runs
  std::atomic<bool> corrupted_ = false;
  std::atomic<size_t> aborted_ = 0;
};

}  // namespace ember::agent
