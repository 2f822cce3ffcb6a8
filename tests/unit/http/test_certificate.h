// TestCertificate: a certificate for some host names, signed by itself, in PEM files of a folder
// that goes with it.
#pragma once

#include <string>

namespace ember::http {

class TestCertificate {
 public:
  // `names`: "DNS:engine.example,IP:127.0.0.1".
  explicit TestCertificate(const std::string& names);
  // Valid from `begin` to `end`, in seconds from now.
  TestCertificate(const std::string& names, long begin, long end);
  ~TestCertificate();
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  std::string certificate() const { return folder_ + "/cert.pem"; }
  std::string key() const { return folder_ + "/key.pem"; }

 private:
  std::string folder_;
};

}  // namespace ember::http
