// Questions to the admin API, beside /v1.
#pragma once

#include <string>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {

inline constexpr char kToken[] = "Authorization: Bearer t0ken\r\n";

inline void AdminOnDoor(ServiceOptions& o) {
  o.admin.on_door = true;
  o.admin.token = "t0ken";
}

inline std::string Call(std::string_view method, std::string_view target,
                        std::string_view headers = kToken, std::string_view body = "") {
  return std::string(method) + " " + std::string(target) +
         " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace ember::router
