#include "client/http/upstream_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>

#include "tests/unit/http/door.h"

namespace ember::http {
namespace {

using testing::HasSubstr;

const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

class UpstreamPoolTest : public testing::Test {
 protected:
  Result<CallReply> Call(UpstreamPool& pool, const Origin& origin, ExchangeOptions options = {},
                         size_t limit = 1 << 20, std::string_view body = "{}") {
    UpstreamRequest request{
        .method = "POST", .target = "/tokenize", .headers = {}, .host = "", .body = body};
    return RunOn(loop_, pool.Call(origin, request, options, limit));
  }
  HttpLoop loop_{2};
};

TEST_F(UpstreamPoolTest, ReusesConnectionsAndSendsJson) {
  Signal seen;
  WireMessage request;
  FakeUpstream upstream([&](TestSocket& peer) {
    for (;;) {
      WireMessage r = peer.ReadMessage();
      if (!r.complete) return;
      if (!seen.is_set()) request = r;
      seen.Set();
      peer.Send(kOk);
    }
  });
  UpstreamPool pool(loop_);
  for (int i = 0; i < 5; ++i) {
    const auto reply = Call(pool, upstream.origin());
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->body, "ok");
  }
  EXPECT_EQ(upstream.accepted(), 1);
  EXPECT_EQ(request.Field("Content-Type"), "application/json");
  EXPECT_EQ(pool.idle_count(), 1u);
  pool.Forget(upstream.origin());
  EXPECT_EQ(pool.connection_count(), 0u);
}

TEST_F(UpstreamPoolTest, ADeadKeptConnectionIsTriedAgainOnAFreshOneOnce) {
  std::atomic<int> requests{0};
  // Each connection serves one request, then dies without a word when the next one arrives.
  FakeUpstream upstream([&](TestSocket& peer) {
    if (!peer.ReadMessage().complete) return;
    ++requests;
    peer.Send(kOk);
    if (peer.ReadMessage().complete) ++requests;
  });
  UpstreamPool pool(loop_);
  EXPECT_TRUE(Call(pool, upstream.origin()).ok());
  EXPECT_TRUE(Call(pool, upstream.origin()).ok());
  EXPECT_EQ(requests, 3);
  EXPECT_EQ(upstream.accepted(), 2);
}

// It may have computed for long: a proxy between us and it lost patience.
TEST_F(UpstreamPoolTest, AKeptConnectionThatBreaksLateWasNotDeadBefore) {
  FakeUpstream upstream([](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send(kOk);
    peer.ReadMessage();
  });
  UpstreamPool pool(loop_);
  EXPECT_TRUE(Call(pool, upstream.origin()).ok());
  const ExchangeOptions options{.stale_within = Duration::zero()};
  EXPECT_EQ(RunOn(loop_, pool.Call(upstream.origin(), {}, options)).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(upstream.accepted(), 1);
}

TEST_F(UpstreamPoolTest, AnUpstreamThatDiesWithTheRequestIsToldFromOneThatWasGone) {
  FakeUpstream* self = nullptr;
  FakeUpstream upstream([&](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    peer.ReadMessage();
    self->StopListening();
    peer.Reset();
  });
  self = &upstream;
  UpstreamPool pool(loop_);
  EXPECT_TRUE(Call(pool, upstream.origin()).ok());
  const auto broke = Call(pool, upstream.origin());
  EXPECT_EQ(broke.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(broke.status().message()),
              testing::Not(testing::StartsWith("connect to ")));
  const auto gone = Call(pool, upstream.origin());
  EXPECT_THAT(std::string(gone.status().message()), testing::StartsWith("connect to "));
}

TEST_F(UpstreamPoolTest, AKeptConnectionThatDiesWithinAReplyIsNotTriedAgain) {
  FakeUpstream upstream([](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send(kOk);
    peer.ReadMessage();
    peer.Send("HTTP/1.1 20");
  });
  UpstreamPool pool(loop_);
  EXPECT_TRUE(Call(pool, upstream.origin()).ok());
  EXPECT_EQ(Call(pool, upstream.origin()).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(upstream.accepted(), 1);
}

TEST_F(UpstreamPoolTest, AFreshConnectionThatDiesIsNotTriedAgain) {
  FakeUpstream upstream([](TestSocket& peer) { peer.ReadMessage(); });
  UpstreamPool pool(loop_);
  EXPECT_EQ(Call(pool, upstream.origin()).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(upstream.accepted(), 1);
}

TEST_F(UpstreamPoolTest, AConnectionThatTheUpstreamClosedIsNotUsed) {
  Signal closed;
  FakeUpstream upstream([&](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send(kOk);
    peer.Close();
    closed.Set();
  });
  UpstreamPool pool(loop_);
  EXPECT_TRUE(Call(pool, upstream.origin()).ok());
  ASSERT_TRUE(closed.Await());
  EXPECT_TRUE(Call(pool, upstream.origin()).ok());
  EXPECT_EQ(upstream.accepted(), 2);
}

TEST_F(UpstreamPoolTest, IdleConnectionsAreClosedInTime) {
  FakeUpstream upstream(AnswerAlways(kOk));
  UpstreamPoolOptions options;
  options.idle_timeout = milliseconds(50);
  UpstreamPool pool(loop_, options);
  EXPECT_TRUE(Call(pool, upstream.origin()).ok());
  EXPECT_TRUE(Eventually([&] { return pool.connection_count() == 0; }));
}

TEST_F(UpstreamPoolTest, ErrorsNameTheirKind) {
  UpstreamPool pool(loop_);
  Origin nobody;
  {
    FakeUpstream gone(AnswerAlways(kOk));
    nobody = gone.origin();
  }
  const auto refused = Call(pool, nobody);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.status().ToString(), HasSubstr(nobody.ToString()));
  EXPECT_EQ(Call(pool, {"no-such-host.invalid", 80}).status().code(), StatusCode::kUnavailable);

  FakeUpstream silent([](TestSocket& peer) { peer.AwaitClose(); });
  EXPECT_EQ(Call(pool, silent.origin(), {.first_byte_timeout = milliseconds(50)}).status().code(),
            StatusCode::kDeadline);
  EXPECT_EQ(Call(pool, silent.origin(), {.deadline = milliseconds(50)}).status().code(),
            StatusCode::kDeadline);

  FakeUpstream stalls([](TestSocket& peer) {
    peer.ReadMessage();
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    peer.AwaitClose();
  });
  EXPECT_EQ(Call(pool, stalls.origin(), {.idle_timeout = milliseconds(50)}).status().code(),
            StatusCode::kDeadline);

  FakeUpstream babble(AnswerAlways("SSH-2.0-OpenSSH_9.2\r\n\r\n"));
  EXPECT_EQ(Call(pool, babble.origin()).status().code(), StatusCode::kCorrupt);
  for (const char* status : {"099", "101", "600", "999"}) {
    FakeUpstream odd(
        AnswerAlways("HTTP/1.1 " + std::string(status) + " Odd\r\nContent-Length: 2\r\n\r\nok"));
    EXPECT_EQ(Call(pool, odd.origin()).status().code(), StatusCode::kCorrupt) << status;
  }
  FakeUpstream huge(
      AnswerAlways("HTTP/1.1 200 OK\r\nX: " + std::string(100 << 10, 'a') + "\r\n\r\n"));
  EXPECT_EQ(Call(pool, huge.origin()).status().code(), StatusCode::kCorrupt);
  FakeUpstream ok(AnswerAlways(kOk));
  EXPECT_EQ(Call(pool, ok.origin(), {}, 1).status().code(), StatusCode::kNoSpace);
  EXPECT_EQ(pool.connection_count() - pool.idle_count(), 0u);
}

TEST_F(UpstreamPoolTest, AReplyThatRefusesTheBodyUnreadIsStillRead) {
  FakeUpstream upstream([](TestSocket& peer) {
    peer.ReadUntil("\r\n\r\n");
    peer.Send("HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    peer.ShutdownWrite();
    peer.ReadAll();
  });
  UpstreamPool pool(loop_);
  const auto reply = Call(pool, upstream.origin(), {}, 1 << 20, std::string(8 << 20, 'x'));
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->status, 413);
}

// D6: who has no use for the body need not take it, nor end the connection.
TEST_F(UpstreamPoolTest, AReplyThatComesBeforeTheBodyIsTakenIsReadAtOnce) {
  for (const char* status : {"413 Too Large", "503 Busy", "307 Elsewhere"}) {
    Signal done;
    FakeUpstream upstream([&](TestSocket& peer) {
      peer.ReadUntil("\r\n\r\n");
      peer.Send("HTTP/1.1 100 Continue\r\n\r\n");
      peer.Send("HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 5\r\n\r\nearly");
      EXPECT_TRUE(done.Await()) << "it was waited for the body to be taken";
    });
    UpstreamPool pool(loop_);
    const auto reply = Call(pool, upstream.origin(), {.first_byte_timeout = seconds(5)}, 1 << 20,
                            std::string(8 << 20, 'x'));
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->status, std::stoi(status));
    EXPECT_EQ(reply->body, "early");
    EXPECT_EQ(pool.connection_count(), 0u) << "what it would read next is the rest of a body";
    done.Set();
  }
}

TEST_F(UpstreamPoolTest, AnEarlyHeadOfSuccessStillGetsTheWholeBody) {
  const std::string body = std::string(8 << 20, 'x') + "end";
  std::atomic<int> taken{0};
  FakeUpstream upstream([&](TestSocket& peer) {
    for (;;) {
      if (!peer.ReadUntil("\r\n\r\n")) return;
      peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
      if (peer.ReadUntil("end")) ++taken;
      peer.Send("ok");
    }
  });
  UpstreamPool pool(loop_);
  for (int i = 0; i < 2; ++i) {
    const auto reply = Call(pool, upstream.origin(), {}, 1 << 20, body);
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->body, "ok");
  }
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(upstream.accepted(), 1);
}

TEST_F(UpstreamPoolTest, ABodyThatIsNotTakenEndsInTimeOrWithItsConnection) {
  const std::string body(8 << 20, 'x');
  Signal done;
  FakeUpstream deaf([&](TestSocket&) { done.Await(); });
  UpstreamPool pool(loop_);
  const auto late = Call(pool, deaf.origin(), {.first_byte_timeout = milliseconds(200)}, 9, body);
  EXPECT_EQ(late.status().code(), StatusCode::kDeadline);
  done.Set();
  FakeUpstream dies([](TestSocket& peer) {
    peer.ReadUntil("\r\n\r\n");
    peer.Reset();
  });
  EXPECT_EQ(Call(pool, dies.origin(), {}, 9, body).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(pool.connection_count(), 0u);
}

TEST_F(UpstreamPoolTest, IsBusyAtOnceBeyondItsBoundAndThatOfQuestionsAside) {
  FakeUpstream silent([](TestSocket& peer) { peer.AwaitClose(); });
  UpstreamPoolOptions options;
  options.max_connections_per_origin = 2;
  options.max_aside_per_origin = 2;
  UpstreamPool pool(loop_, options);
  std::vector<std::unique_ptr<Cancellation>> cancellations;
  std::vector<std::future<Result<CallReply>>> held;
  const auto strand = loop_.NewStrand();
  const auto hold = [&](bool aside) {
    cancellations.push_back(std::make_unique<Cancellation>());
    const size_t before = pool.connection_count();
    held.push_back(
        Launch(strand, pool.Call(silent.origin(), {},
                                 {.aside = aside, .cancellation = cancellations.back().get()})));
    return Eventually([&] { return pool.connection_count() == before + 1; });
  };
  // Questions aside take no request's place, nor requests theirs.
  ASSERT_TRUE(hold(true));
  ASSERT_TRUE(hold(false));
  ASSERT_TRUE(hold(false));
  EXPECT_EQ(Call(pool, silent.origin()).status().code(), StatusCode::kBusy);
  ASSERT_TRUE(hold(true));
  EXPECT_EQ(Call(pool, silent.origin(), {.aside = true}).status().code(), StatusCode::kBusy);
  boost::asio::post(strand, [&] {
    for (auto& cancellation : cancellations) cancellation->Cancel();
  });
  for (auto& call : held) EXPECT_EQ(call.get().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(pool.connection_count(), 0u);
  for (const bool aside : {false, true}) {
    EXPECT_EQ(
        Call(pool, silent.origin(), {.deadline = milliseconds(20), .aside = aside}).status().code(),
        StatusCode::kDeadline)
        << "the places are free again";
  }
}

TEST_F(UpstreamPoolTest, CancellationClosesTheConnectionAtOnceInEveryPhase) {
  for (const char* sent : {"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"}) {
    Signal ready, closed;
    FakeUpstream upstream([&](TestSocket& peer) {
      peer.ReadMessage();
      peer.Send(sent);
      ready.Set();
      if (peer.AwaitClose()) closed.Set();
    });
    UpstreamPool pool(loop_);
    const auto strand = loop_.NewStrand();
    Cancellation cancellation;
    UpstreamRequest request{
        .method = "POST", .target = "/", .headers = {}, .host = "", .body = "{}"};
    auto reply =
        Launch(strand, pool.Call(upstream.origin(), request, {.cancellation = &cancellation}));
    ASSERT_TRUE(ready.Await());
    boost::asio::post(strand, [&] { cancellation.Cancel(); });
    EXPECT_EQ(reply.get().status().code(), StatusCode::kCancelled);
    EXPECT_TRUE(closed.Await());
    EXPECT_EQ(pool.connection_count(), 0u);
  }
}

TEST_F(UpstreamPoolTest, ExchangesMayOutliveThePool) {
  FakeUpstream upstream(AnswerAlways("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwhole!"));
  auto pool = std::make_unique<UpstreamPool>(loop_);
  auto exchange = RunOn(loop_, pool->Send(upstream.origin(), {}, {}));
  ASSERT_TRUE(exchange.ok());
  pool.reset();
  const auto piece = RunOn(loop_, (*exchange)->ReadBody());
  ASSERT_TRUE(piece.ok());
  EXPECT_EQ(*piece, "whole!");
}

}  // namespace
}  // namespace ember::http
