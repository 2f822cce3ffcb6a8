// UpstreamConnection and UpstreamStore: connections to upstreams, those in use counted, those idle
// kept for the next exchange.
//
// Concurrency: the store from any thread; a connection belongs to whoever took it, in its strand.
// Life: the store is shared by the pool and its exchanges; after Close() it keeps no connection.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "client/http/origin.h"
#include "client/http/upstream_pool.h"
#include "client/http/wire.h"

namespace ember::http {

struct UpstreamConnection {
  explicit UpstreamConnection(const boost::asio::any_io_executor& executor);
  // The peer has neither closed nor sent anything: it can take a request.
  bool LooksAlive();

  // For message_reader.h.
  std::string_view unread() const {
    return {static_cast<const char*>(buffer.data().data()), buffer.size()};
  }
  void Consume(size_t n) { buffer.consume(n); }
  boost::asio::awaitable<Wire::Error> Fill();

  Wire wire;
  boost::beast::flat_buffer buffer;  // bytes read and not parsed yet
  bool served_before = false;
  TimePoint idle_since;
};

struct UpstreamMetrics {
  explicit UpstreamMetrics(MetricsRegistry* registry);

 private:
  std::unique_ptr<MetricsRegistry> own;
  MetricsRegistry& registry;

 public:
  Gauge& connections;
  Gauge& idle;
  Counter& connects;
  Counter& reuses;
  Counter& stale_retries;
  Counter& refused;
};

class UpstreamStore : public std::enable_shared_from_this<UpstreamStore> {
 public:
  // `name_resolver` must outlive it.
  UpstreamStore(boost::asio::any_io_executor loop, NameResolver& name_resolver,
                const UpstreamPoolOptions& options);

  // Counts a connection to `origin` as in use, until Put or Drop with the same `aside`. False: the
  // bound for such is reached.
  bool Reserve(const Origin& origin, bool aside);
  // An idle connection that looks alive, or null: make one.
  std::unique_ptr<UpstreamConnection> TakeIdle(const Origin& origin);
  void Put(const Origin& origin, bool aside, std::unique_ptr<UpstreamConnection> connection);
  void Drop(const Origin& origin, bool aside);
  void Forget(const Origin& origin);
  void CloseIdle();
  void Close();
  // For https; on the loop.
  Result<std::shared_ptr<TlsContext>> Tls();
  size_t idle_count();
  size_t connection_count();

  const boost::asio::any_io_executor executor;
  NameResolver& names;
  UpstreamMetrics metrics;

 private:
  struct Peer {
    size_t in_use = 0;
    size_t aside = 0;                                       // in use, and not among in_use
    bool forgotten = false;                                 // keep nothing that comes back
    std::vector<std::unique_ptr<UpstreamConnection>> idle;  // the last used at the end
  };
  using Doomed = std::vector<std::unique_ptr<UpstreamConnection>>;  // closed outside the lock

  void ScheduleSweep();  // with the lock held
  void Sweep();
  void CountAll();  // with the lock held
  void Release(Peer& peer, bool aside);
  void EraseIfUnused(std::map<Origin, Peer>::iterator peer);

  const UpstreamPoolOptions options_;
  std::shared_ptr<TlsContext> tls_;  // with the lock held
  std::mutex mutex_;
  std::map<Origin, Peer> peers_;
  boost::asio::steady_timer sweep_timer_;  // with the lock held
  size_t idle_ = 0;
  size_t in_use_ = 0;
  bool sweeping_ = false;
  bool closed_ = false;
};

}  // namespace ember::http
