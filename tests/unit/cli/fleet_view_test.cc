#include "client/cli/fleet_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ember::cli {
namespace {

using ::testing::HasSubstr;

TEST(FleetView, ShowsReplicasAndTroubles) {
  const auto text = FleetText(
      R"({"replicas":[{"id":"r1","state":"up","why":"","in_flight":3,"source":"flag","http":"a:1"},)"
      R"({"id":"r2","state":"ejected","why":"probe: no","in_flight":0,"source":"file","http":"b:2"}],)"
      R"("troubles":{"file":"line 3: no port"}})");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_THAT(*text, HasSubstr("r2"));
  EXPECT_THAT(*text, HasSubstr("ejected"));
  EXPECT_THAT(*text, HasSubstr("probe: no"));
  EXPECT_THAT(*text, HasSubstr("from file: line 3: no port"));
}

TEST(FleetView, SaysWhenItIsNoList) {
  for (const char* json : {"", "[]", "{}", "{\"replicas\":3}", "{\"replicas\":["}) {
    EXPECT_FALSE(FleetText(json).ok()) << json;
  }
}

}  // namespace
}  // namespace ember::cli
