#include "client/http/name_resolver.h"

#include <netdb.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "client/http/await.h"
#include "proto/base/time.h"

namespace ember::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// The system answers most questions within this time.
constexpr Duration kMoment = milliseconds(100);

// Who waits for an answer, in a strand of his own.
struct Waiter {
  explicit Waiter(const asio::any_io_executor& executor) : over(executor) {}
  void End() {
    ended = true;
    over.cancel();
  }
  asio::steady_timer over;
  bool ended = false;
  NameResolver::Answer answer{.ec = asio::error::operation_aborted, .addresses = {}};
};

error_code ErrorOf(int failed) {
  switch (failed) {
    case EAI_AGAIN:
      return asio::error::host_not_found_try_again;
    case EAI_MEMORY:
      return asio::error::no_memory;
    case EAI_FAIL:
      return asio::error::no_recovery;
    case EAI_SYSTEM:
      return {errno, boost::system::system_category()};
    default:
      return asio::error::host_not_found;
  }
}

NameResolver::Answer AskSystem(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int failed = ::getaddrinfo(name.c_str(), nullptr, &hints, &list); failed != 0) {
    return {.ec = ErrorOf(failed), .addresses = {}};
  }
  NameResolver::Answer answer;
  for (const addrinfo* found = list; found != nullptr; found = found->ai_next) {
    if (found->ai_family == AF_INET) {
      const auto* in = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
      answer.addresses.push_back(asio::ip::address_v4(ntohl(in->sin_addr.s_addr)));
    } else if (found->ai_family == AF_INET6) {
      const auto* in = reinterpret_cast<const sockaddr_in6*>(found->ai_addr);
      asio::ip::address_v6::bytes_type bytes;
      std::copy_n(in->sin6_addr.s6_addr, bytes.size(), bytes.begin());
      answer.addresses.push_back(asio::ip::address_v6(bytes, in->sin6_scope_id));
    }
  }
  ::freeaddrinfo(list);
  if (answer.addresses.empty()) answer.ec = asio::error::host_not_found;
  return answer;
}

}  // namespace

struct NameResolver::State {
  // The thread's whole life. It looks up what waits, then ends.
  static void Run(const std::shared_ptr<State>& state);
  void Ask(const std::string& name, const std::shared_ptr<Waiter>& waiter,
           const std::shared_ptr<State>& self);
  // The name was asked for a moment ago.
  void Hurry(const std::string& name, const std::shared_ptr<State>& self);
  // With the lock held.
  void StartThread(const std::shared_ptr<State>& self);
  void Tell(const std::string& name, const Answer& answer);

  std::mutex mutex;
  std::map<std::string, std::vector<std::shared_ptr<Waiter>>> asked;  // waiting or looked up
  std::deque<std::string> waiting;
  size_t threads = 0;
  bool closed = false;
};

void NameResolver::State::Ask(const std::string& name, const std::shared_ptr<Waiter>& waiter,
                              const std::shared_ptr<State>& self) {
  const std::lock_guard lock(mutex);
  if (closed) return;
  const auto [at, first] = asked.try_emplace(name);
  at->second.push_back(waiter);
  if (!first) return;
  waiting.push_back(name);
  if (threads < kMaxThreads) StartThread(self);
  if (threads > 0) return;
  waiting.clear();
  Tell(name, {.ec = asio::error::no_memory, .addresses = {}});
}

void NameResolver::State::Hurry(const std::string& name, const std::shared_ptr<State>& self) {
  const std::lock_guard lock(mutex);
  const bool waits = std::find(waiting.begin(), waiting.end(), name) != waiting.end();
  if (waits && threads < kMaxHanging) StartThread(self);
}

void NameResolver::State::StartThread(const std::shared_ptr<State>& self) {
  try {
    std::thread([self] { Run(self); }).detach();
    ++threads;
  } catch (const std::system_error&) {
    // One of those that there are takes what waits.
  }
}

void NameResolver::State::Run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (!state->waiting.empty()) {
    const std::string name = std::move(state->waiting.front());
    state->waiting.pop_front();
    lock.unlock();
    const Answer answer = AskSystem(name);
    lock.lock();
    state->Tell(name, answer);
  }
  --state->threads;
}

void NameResolver::State::Tell(const std::string& name, const Answer& answer) {
  const auto at = asked.find(name);
  if (at == asked.end()) return;  // closed
  for (std::shared_ptr<Waiter>& waiter : at->second) {
    const asio::any_io_executor executor = waiter->over.get_executor();
    asio::post(executor, [waiter = std::move(waiter), answer] {
      waiter->answer = answer;
      waiter->End();
    });
  }
  asked.erase(at);
}

NameResolver::NameResolver() : state_(std::make_shared<State>()) {}

asio::awaitable<NameResolver::Answer> NameResolver::LookUp(std::string name,
                                                           Cancellation* cancellation) {
  const auto waiter = std::make_shared<Waiter>(co_await asio::this_coro::executor);
  Cancellation::Registration registration;
  if (cancellation != nullptr) {
    if (cancellation->cancelled()) co_return waiter->answer;
    registration = cancellation->OnCancel([&waiter] { waiter->End(); });
  }
  waiter->over.expires_after(kMoment);
  state_->Ask(name, waiter, state_);
  co_await waiter->over.async_wait(kAwait);
  if (!waiter->ended) {
    state_->Hurry(name, state_);
    waiter->over.expires_at(TimePoint::max());
    co_await waiter->over.async_wait(kAwait);
  }
  co_return waiter->answer;
}

void NameResolver::Close() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->asked.clear();
  state_->waiting.clear();
}

}  // namespace ember::http
