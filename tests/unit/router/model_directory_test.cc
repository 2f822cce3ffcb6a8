// Who serves which model: as declared, as engines tell, and when nobody knows.
#include "router/fleet/model_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "router/fleet/engine_models.h"
#include "router/fleet/replica_set.h"

namespace ember::router {
namespace {

using testing::ElementsAre;

using Numbers = std::vector<ReplicaNumber>;

ModelList Listing(const std::vector<std::string>& names, TakesMore more = TakesMore::kNothing) {
  ModelList list{.models = {}, .more = more};
  for (const std::string& name : names) list.models.push_back({.name = name});
  return list;
}

class Directory : public testing::Test {
 protected:
  // Of the first six.
  Numbers Takers(std::string_view model, MemberSet usable = MemberSet().set()) {
    const MemberSet takers = directory.TakersOf(model, usable);
    Numbers out;
    for (ReplicaNumber n = 0; n < 6; ++n) {
      if (takers.test(n)) out.push_back(n);
    }
    return out;
  }
  void Set(ReplicaNumber n, ModelList list) { directory.Set(Numbers{n}, std::move(list)); }

  ModelDirectory directory;
};

TEST_F(Directory, AModelGoesToWhoListsItAndToWhomNothingIsKnownOf) {
  directory.Set(Numbers{0, 1}, Listing({"a", "b"}));
  Set(2, Listing({"b"}));
  EXPECT_THAT(Takers("a"), ElementsAre(0, 1));
  EXPECT_THAT(Takers("b"), ElementsAre(0, 1, 2));
  EXPECT_THAT(Takers("c"), ElementsAre());
  EXPECT_THAT(Takers(""), ElementsAre(0, 1, 2, 3, 4, 5)) << "who names none may go anywhere";
  Set(3, {});
  EXPECT_THAT(Takers("a"), ElementsAre(0, 1, 3));
  EXPECT_THAT(Takers("c"), ElementsAre(3));
  // llama.cpp's server answers to any name, and is not bothered with others' models.
  Set(4, Listing({"d"}, TakesMore::kUnlisted));
  EXPECT_THAT(Takers("c"), ElementsAre(3, 4));
  EXPECT_THAT(Takers("d"), ElementsAre(3, 4));
  EXPECT_THAT(Takers("a"), ElementsAre(0, 1, 3));
  Set(3, Listing({"e"}));
  EXPECT_THAT(Takers("c"), ElementsAre(4));
  directory.Remove(Numbers{0, 1}, TimePoint());
  EXPECT_THAT(Takers("a"), ElementsAre(4)) << "nobody lists it any more";
  EXPECT_FALSE(directory.Lists("a"));
  EXPECT_THAT(Takers("b"), ElementsAre(2));
}

TEST_F(Directory, WhoWasNotAskedYetIsTheLastResort) {
  Set(0, Listing({"a"}));
  Set(1, {.models = {}, .more = TakesMore::kNotAsked});
  EXPECT_THAT(Takers("a"), ElementsAre(0));
  EXPECT_THAT(Takers("b"), ElementsAre(1));
  EXPECT_THAT(Takers("a", MemberSet().set(1)), ElementsAre(0, 1)) << "the other one is out";
  EXPECT_TRUE(directory.MayTake(1, "a"));
  EXPECT_FALSE(directory.MayTake(0, "b"));
  EXPECT_TRUE(directory.MayTake(0, ""));
}

TEST_F(Directory, WhoDeclaresModelsMayHaveAdaptersOfThemThatNobodyKnowsYet) {
  Set(0, Listing({"a"}));
  Set(1, Listing({"b"}, TakesMore::kNotAsked));
  EXPECT_THAT(Takers("b"), ElementsAre(1));
  EXPECT_THAT(Takers("law"), ElementsAre(1));
  EXPECT_THAT(Takers("a", MemberSet().set(1)), ElementsAre(0)) << "that one is no adapter";
  EXPECT_TRUE(directory.MayTake(1, "law"));
  EXPECT_FALSE(directory.MayTake(1, "a"));
  Set(1, Listing({"b"}));
  EXPECT_THAT(Takers("law"), ElementsAre());
}

// A DNS answer or a fleet file may leave a replica out for a moment.
TEST_F(Directory, NamesOfWhoLeftAreRememberedForAWhile) {
  const TimePoint now = TimePoint() + seconds(1000);
  Set(0, Listing({"a", "b"}));
  Set(1, Listing({"b"}));
  Set(2, Listing({"old"}));
  Set(2, Listing({"new"}));
  directory.Remove(Numbers{0}, now);
  EXPECT_TRUE(directory.ListedLately("a", now + seconds(200)));
  EXPECT_FALSE(directory.ListedLately("a", now + seconds(301)));
  EXPECT_FALSE(directory.ListedLately("b", now)) << "it is listed";
  EXPECT_FALSE(directory.ListedLately("old", now)) << "its engine does not serve it any more";
  EXPECT_FALSE(directory.Lists("a"));
  for (int i = 0; i < 5; ++i) {
    std::vector<std::string> names;
    for (int k = 0; k < 1000; ++k) names.push_back(std::to_string(i * 1000 + k));
    Set(3, Listing(names));
    directory.Remove(Numbers{3}, now);
  }
  EXPECT_FALSE(directory.ListedLately("a", now)) << "the oldest goes first";
  EXPECT_TRUE(directory.ListedLately("4999", now));
}

TEST_F(Directory, KnowsAdaptersAndWhatEnginesSayOfThem) {
  Set(0, {.models = {{.name = "m", .json = "{1}"}, {.name = "law", .base = "m", .json = "{2}"}},
          .more = TakesMore::kNothing});
  Set(1, Listing({"m"}));
  EXPECT_EQ(directory.BaseOf("law"), "m");
  EXPECT_EQ(directory.BaseOf("m"), "");
  EXPECT_EQ(directory.BaseOf("unknown"), "");
  const auto adapter = [&](const char* model, const char* lora_path = "") {
    return directory.AdapterOf(model, lora_path);
  };
  EXPECT_EQ(adapter("law"), "law");
  EXPECT_EQ(adapter("m:law"), "law") << "SGLang's form";
  EXPECT_EQ(adapter("m", "law"), "law");
  EXPECT_EQ(adapter("m"), "");
  EXPECT_EQ(adapter("m", "art"), "art") << "whether or not anybody has it";
  EXPECT_EQ(adapter(""), "");
  EXPECT_EQ(adapter("", "art"), "art");
  for (const char* unknown : {"other:law", "m:", ":art", ":law", ":", "m:art", "law:m", "x"}) {
    EXPECT_EQ(adapter(unknown), std::nullopt) << unknown;
  }
  EXPECT_EQ(directory.entries().find("m")->second.json, "{1}");
  EXPECT_TRUE(directory.Overlap(0, 1));
  Set(1, Listing({"other"}));
  EXPECT_FALSE(directory.Overlap(0, 1));
  Set(1, {});
  EXPECT_TRUE(directory.Overlap(0, 1));
}

// SGLang lists adapters, and takes only BASE:ADAPTER or `lora_path` for one.
TEST_F(Directory, SglangsAdaptersAreAskedForByColon) {
  const ModelList sglang{.models = {{.name = "m"}, {.name = "law", .base = "m"}},
                         .more = TakesMore::kUnlisted,
                         .adapters_by_colon = true};
  Set(0, sglang);
  EXPECT_EQ(directory.AdapterOf("law", ""), "") << "it answers with the base model";
  EXPECT_EQ(directory.BaseOf("law"), "m");
  EXPECT_EQ(directory.AdapterOf("law", "art"), "art");
  EXPECT_EQ(directory.AdapterOf("anything", ""), "");
  EXPECT_EQ(directory.AdapterOf("m:law", "art"), "law");
  EXPECT_EQ(directory.AdapterOf("m:art", ""), "art") << "whether or not it has it";
  EXPECT_EQ(directory.BaseOf("m:art"), "m");
  EXPECT_EQ(directory.AdapterOf("other:art", ""), "art") << "it looks at no base";
  EXPECT_EQ(directory.AdapterOf("m:", ""), "");
  Set(0, {.models = {{.name = "m"}}, .more = TakesMore::kNothing, .adapters_by_colon = true});
  EXPECT_TRUE(directory.TakersOf("m:art", MemberSet().set()).test(0)) << "it declares its model";
  EXPECT_TRUE(directory.MayTake(0, "m:art"));
  EXPECT_FALSE(directory.MayTake(0, "x:art"));
  EXPECT_EQ(directory.AdapterOf("m:art", ""), "art");
  Set(0, sglang);
  // Together with engines of other kinds.
  Set(1, Listing({"x"}, TakesMore::kUnlisted));
  EXPECT_EQ(directory.AdapterOf("m:art", ""), "art");
  EXPECT_EQ(directory.AdapterOf("x:latest", ""), std::nullopt) << "or llama.cpp's own";
  EXPECT_EQ(directory.AdapterOf("anything", ""), "");
  Set(1, {.models = {{.name = "m"}, {.name = "law", .base = "m"}}, .more = TakesMore::kNothing});
  EXPECT_EQ(directory.AdapterOf("law", ""), "law") << "vLLM's";
  Set(1, {});
  EXPECT_EQ(directory.AdapterOf("anything", ""), std::nullopt);
  Set(0, Listing({"m"}));
  EXPECT_EQ(directory.AdapterOf("m:art", ""), std::nullopt);
}

// Of names that nobody lists, an engine that declares its models knows adapters only.
TEST_F(Directory, WhatNobodyListsIsAnAdapterOfWhoWasNotAskedForThem) {
  Set(0, Listing({"m"}, TakesMore::kNotAsked));
  EXPECT_EQ(directory.AdapterOf("art", ""), "art");
  EXPECT_EQ(directory.AdapterOf("m", ""), "");
  EXPECT_EQ(directory.AdapterOf("m:art", ""), "art");
  EXPECT_EQ(directory.BaseOf("m:art"), "m");
  Set(1, Listing({"x"}, TakesMore::kUnlisted));
  EXPECT_EQ(directory.AdapterOf("art", ""), std::nullopt);
}

// Who only declares an adapter's name does not know what it is of.
TEST_F(Directory, ABaseIsKeptWhenAnotherDeclaresTheNameAlone) {
  Set(0, {.models = {{.name = "law", .base = "m"}}, .more = TakesMore::kNothing});
  Set(1, Listing({"law"}));
  EXPECT_EQ(directory.BaseOf("law"), "m");
  Set(0, {.models = {{.name = "law", .base = "other"}}, .more = TakesMore::kNothing});
  EXPECT_EQ(directory.BaseOf("law"), "other") << "by who was heard last";
  directory.Remove(Numbers{1}, TimePoint());
  Set(0, Listing({"law"}));
  EXPECT_EQ(directory.BaseOf("law"), "") << "the only one that has it says that it is none";
}

// Many clients take the first of the list.
TEST_F(Directory, AdaptersAreLastElseTheEnginesOrderStays) {
  Set(3, {.models = {{.name = "ad2", .base = "smol"}, {.name = "other"}, {.name = "a"}}});
  Set(1, {.models = {{.name = "smol"}, {.name = "alias"}, {.name = "ad1", .base = "smol"}}});
  Set(2, {.models = {{.name = "smol"}, {.name = "ad1", .base = "smol"}}});
  EXPECT_THAT(directory.InOrder(), ElementsAre("smol", "alias", "other", "a", "ad1", "ad2"));
  directory.Remove(Numbers{1}, TimePoint());
  EXPECT_THAT(directory.InOrder(), ElementsAre("smol", "other", "a", "ad1", "ad2"));
  EXPECT_THAT(ModelDirectory().InOrder(), ElementsAre());
}

std::vector<std::string> NamesOf(const ModelList& list) {
  std::vector<std::string> names;
  for (const ServedModel& m : list.models) {
    names.push_back(m.base.empty() ? m.name : m.name + " of " + m.base);
  }
  return names;
}

TEST(EngineModels, AsVllmLlamaCppAndSglangListThem) {
  const auto vllm = ReadEngineModels(
      R"({"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","root":"/m","parent":null},
          {"id":"law","object":"model","owned_by":"vllm","root":"/law","parent":"m"}]})");
  ASSERT_TRUE(vllm);
  EXPECT_THAT(NamesOf(*vllm), ElementsAre("m", "law of m"));
  EXPECT_EQ(vllm->more, TakesMore::kNothing);
  EXPECT_EQ(vllm->models[0].json,
            R"({"id":"m","object":"model","owned_by":"vllm","root":"/m","parent":null})");
  for (const char* owner : {"llamacpp", "sglang"}) {
    const auto list = ReadEngineModels(R"({"models":[],"data":[{"id":"x","owned_by":")" +
                                       std::string(owner) + "\"}]}");
    ASSERT_TRUE(list);
    EXPECT_EQ(list->more, TakesMore::kUnlisted) << owner;
    EXPECT_EQ(list->adapters_by_colon, owner == std::string_view("sglang"));
  }
}

TEST(EngineModels, BelievesNothingThatCanBeNoList) {
  for (const char* none :
       {"", "{}", "[]", "{\"data\":7}", "{\"data\":[]}", "{\"data\":[7,null,[],{\"id\":7}]}",
        "{\"data\":[{\"id\":\"\"}]}", "{\"data\":[{\"id\":\"m\"}]", "\xff\xfe"}) {
    EXPECT_FALSE(ReadEngineModels(none)) << none;
  }
  std::string many;
  for (int i = 0; i < 3000; ++i) many += ",{\"id\":\"m" + std::to_string(i) + "\"}";
  const auto list = ReadEngineModels("{\"data\":[{\"id\":\"" + std::string(257, 'x') +
                                     "\"},{\"id\":\"big\",\"x\":\"" + std::string(5000, 'x') +
                                     "\"}" + many + "]}");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->models.size(), 1024u);
  EXPECT_EQ(list->models[0].name, "big");
  EXPECT_EQ(list->models[0].json, "") << "too much to pass on";
}

class ServedFleet : public testing::Test {
 protected:
  const Endpoint& Add(const std::string& config) {
    auto parsed = ReplicaConfig::Parse(config);
    EXPECT_TRUE(parsed.ok() && set.Add(*parsed).ok());
    set.ApplyProbe(*set.at(set.numbers().back()).endpoint, OkStatus(), TimePoint());
    return *set.endpoints().back();
  }
  std::vector<std::string> Models(const Endpoint& e) {
    return NamesOf(set.models().ListOf(e.members.front()));
  }
  ReplicaSet set{HealthOptions{}};
};

TEST_F(ServedFleet, WhatIsDeclaredIsOnlyAddedToByAdapters) {
  const Endpoint& e = Add("r1,http=a:1,model=m,alias");
  EXPECT_THAT(Models(e), ElementsAre("m", "alias"));
  set.ApplyModels(e, std::optional(ModelList{.models = {{.name = "m", .json = "{}"},
                                                        {.name = "other"},
                                                        {.name = "law", .base = "m"}}}));
  EXPECT_THAT(Models(e), ElementsAre("m", "alias", "law of m"));
  set.ApplyModels(e, std::optional<ModelList>());
  EXPECT_THAT(Models(e), ElementsAre("m", "alias")) << "it lists none now";
}

TEST_F(ServedFleet, OneThatCantBeAskedServesWhatItServed) {
  const Endpoint& e = Add("r1,http=a:1");
  set.AwaitModels(e);
  set.ApplyModels(e, UnavailableError("no"));
  EXPECT_EQ(set.models().ListOf(0).more, TakesMore::kAnything) << "nobody can tell";
  set.ApplyModels(e, std::optional(Listing({"m"})));
  set.ApplyModels(e, UnavailableError("no"));
  EXPECT_THAT(Models(e), ElementsAre("m"));
  ASSERT_TRUE(set.Remove("r1").ok());
  EXPECT_TRUE(set.models().empty());
}

// The last one of its model, however many others there are.
TEST_F(ServedFleet, TheLastReplicaOfAModelIsNotPutOutByItsReplies) {
  Add("r1,http=a:1,model=m");
  Add("r2,http=b:1,model=other");
  const auto fail = [&] {
    for (int i = 0; i < 20; ++i) {
      set.ApplyReply(0, Health::Reply::kServerError, "500", TimePoint());
    }
    return set.at(0).endpoint->state();
  };
  EXPECT_EQ(fail(), "up");
  Add("r3,http=c:1,model=m");
  EXPECT_EQ(fail(), "ejected");
}

}  // namespace
}  // namespace ember::router
