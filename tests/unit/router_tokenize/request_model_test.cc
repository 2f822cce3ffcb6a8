// The model that a body names, whatever else is in it.
#include "router/tokenize/request_model.h"

#include <gtest/gtest.h>

namespace ember::router {
namespace {

TEST(RequestModel, OfAJsonObjectWhereverItStands) {
  EXPECT_EQ(ModelOfJson(R"({"model":"a","messages":[]})"), "a");
  EXPECT_EQ(ModelOfJson(R"( { "messages" : [ {"model":"inner"} ] , "model" : "a\/b\u0021" } )"),
            "a/b!");
  EXPECT_EQ(ModelOfJson("{\"prompt\":\"" + std::string(5u << 20, 'x') + "\",\"model\":\"late\"}"),
            "late");
  for (const size_t size : {1024u, 1025u, 100'000u}) {
    // One that is too long is some name still, and nobody's.
    const std::string name(size, 'm');
    EXPECT_EQ(ModelOfJson(R"({"model":")" + name + "\"}"), std::string(1024, 'm'));
  }
  std::string escaped;
  for (int i = 0; i < 300; ++i) escaped += "\\u6f22";
  EXPECT_EQ(ModelOfJson(R"({"model":")" + escaped + "\"}").size(), 900u);
  EXPECT_EQ(ModelOfJson(R"({"mod\u0065l":"a"})"), "a");
  EXPECT_EQ(ModelOfJson(R"({"model":"a","n":1,"model":"b"})"), "b") << "as engines have it";
  EXPECT_EQ(ModelOfJson(R"({"model":"a","model":null})"), "");
  EXPECT_EQ(LoraPathOfJson(R"({"model":"a","lora_path":"b"})"), "b");
  EXPECT_EQ(LoraPathOfJson(R"({"model":"a","lora_path":["b"]})"), "");
  EXPECT_EQ(ModelOfJson(R"({"model":"\ud800"})"), R"(\ud800)") << "nobody has it";
  for (const std::string& none :
       {std::string(), std::string("{"), std::string("[]"), std::string(R"({"model":7})"),
        std::string(R"({"model":null,"n":1})"), std::string(R"({"a":"\"model\":\"x\""})"),
        std::string(R"("model")"), std::string(R"({"model":"unended)"),
        std::string(R"({"a":{"model":"inner"}})"), std::string(2000, '[')}) {
    EXPECT_EQ(ModelOfJson(none), "") << none.substr(0, 40);
  }
}

TEST(RequestModel, WhetherAStreamIsAskedFor) {
  EXPECT_TRUE(AsksForStream(R"({"messages":[],"stream" : true})"));
  EXPECT_TRUE(AsksForStream(R"({"stream":false,"str\u0065am":true,"n":1})"));
  for (const char* no :
       {"", "{", R"({"stream":false})", R"({"stream":null})", R"({"a":{"stream":true}})",
        R"({"stream":"true"})", R"([true])", R"({"stream":true,"stream":false})"}) {
    EXPECT_FALSE(AsksForStream(no)) << no;
  }
}

// Long values are passed over by their brackets and strings alone.
TEST(RequestModel, BehindNestedValuesOfAnyLength) {
  for (size_t length = 0; length < 200; ++length) {
    const std::string numbers(length, '7'), text(length, ']');
    const std::string value = "[{\"a\":[" + numbers + R"(],"]}":"\"}]{[)" + text + "\"}," +
                              numbers + ",{},[[]]," + numbers + "]";
    EXPECT_EQ(ModelOfJson("{\"x\":" + value + ",\"model\":\"m\"}"), "m") << length;
    for (size_t cut = 1; cut < 4; ++cut) {
      EXPECT_EQ(ModelOfJson("{\"x\":" + value.substr(0, value.size() - cut)), "");
    }
    EXPECT_EQ(ModelOfJson("{\"x\":" + value + "],\"model\":\"m\"}"), "") << "a bracket too many";
  }
}

// As audio is sent.
TEST(RequestModel, OfAForm) {
  const std::string file =
      "--b b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n\r\n"
      "; name=\"model\"\r\n\r\nno\r\n--b\r\n";
  const std::string model =
      "--b b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n";
  const std::string type = "multipart/form-data; charset=utf-8; boundary=\"b b\"";
  EXPECT_EQ(ModelOfForm(type, model + file + "--b b--\r\n"), "whisper");
  EXPECT_EQ(ModelOfForm(type, file + model + "--b b--\r\n"), "whisper");
  EXPECT_EQ(ModelOfForm("Multipart/Form-Data;boundary=x;a=b",
                        "--x\r\nA: b; name=\"model\"\r\n\r\n"
                        "m\r\n--x--"),
            "m");
  EXPECT_EQ(ModelOfForm(type, file + "--b b--\r\n"), "");
  EXPECT_EQ(ModelOfForm("multipart/form-data", model), "") << "no boundary";
  EXPECT_EQ(ModelOfForm("multipart/form-data; boundary=" + std::string(71, 'x'), model), "");
  EXPECT_EQ(ModelOfForm("application/json", model), "");
  for (size_t cut = 0; cut < model.size(); ++cut) {
    EXPECT_EQ(ModelOfForm(type, model.substr(0, cut)), "") << cut;
  }
  const std::string long_name =
      "--b b\r\nA: b; name=\"model\"\r\n\r\n" + std::string(5000, 'm') + "\r\n--b b--\r\n";
  EXPECT_EQ(ModelOfForm(type, long_name), std::string(1024, 'm'));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "--b b\r\nX: y\r\n\r\nz\r\n";
  EXPECT_EQ(ModelOfForm(type, many + model), "") << "looked for among the first parts only";
}

}  // namespace
}  // namespace ember::router
