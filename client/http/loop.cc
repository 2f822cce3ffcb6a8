#include "client/http/loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "client/http/name_resolver.h"
#include "client/http/watchdog.h"

namespace ember::http {

namespace asio = boost::asio;

struct HttpLoop::Impl {
  explicit Impl(int threads) : context(threads), work(context.get_executor()) {}

  void Run() {
    for (;;) {
      try {
        context.run();
        return;
      } catch (const std::exception& e) {
        spdlog::error("http loop: a handler threw: {}", e.what());
      }
    }
  }

  asio::io_context context;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  NameResolver names;
  std::vector<std::thread> threads;
};

HttpLoop::HttpLoop(int threads) : impl_(std::make_unique<Impl>(std::max(threads, 1))) {
  for (int i = 0; i < std::max(threads, 1); ++i)
    impl_->threads.emplace_back([this] { impl_->Run(); });
}

HttpLoop::~HttpLoop() { Stop(); }

asio::any_io_executor HttpLoop::executor() { return impl_->context.get_executor(); }

asio::any_io_executor HttpLoop::NewStrand() {
  if (impl_->threads.size() == 1) return executor();  // one thread is a strand
  return asio::make_strand(impl_->context);
}

NameResolver& HttpLoop::names() { return impl_->names; }

void HttpLoop::Spawn(asio::awaitable<void> work) {
  asio::co_spawn(NewStrand(), std::move(work), [](std::exception_ptr error) {
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      spdlog::error("http loop: a coroutine threw: {}", e.what());
    }
  });
}

void HttpLoop::Stop() {
  impl_->work.reset();
  impl_->context.stop();
  for (std::thread& t : impl_->threads) {
    if (t.joinable()) t.join();
  }
  impl_->names.Close();
}

asio::awaitable<Status> SleepFor(Duration duration, Cancellation* cancellation) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_at(After(duration));
  Cancellation::Registration registration;
  if (cancellation != nullptr) {
    if (cancellation->cancelled()) co_return CancelledError("sleep");
    registration = cancellation->OnCancel([&timer] { timer.cancel(); });
  }
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  co_return cancellation != nullptr && cancellation->cancelled() ? CancelledError("sleep")
                                                                 : OkStatus();
}

}  // namespace ember::http
