#include "tests/unit/http/test_certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <memory>

#include "proto/base/check.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::http {
namespace {

void AddExtension(X509* cert, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, cert, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  EMBER_CHECK(extension != nullptr && X509_add_ext(cert, extension, -1) == 1, "an extension");
  X509_EXTENSION_free(extension);
}

template <typename Write>
void WriteFile(const std::string& path, Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(path.c_str(), "w"), BIO_free);
  EMBER_CHECK(file != nullptr && write(file.get()) == 1, "a PEM file");
}

}  // namespace

TestCertificate::TestCertificate(const std::string& names) : TestCertificate(names, -3600, 3600) {}

TestCertificate::TestCertificate(const std::string& names, long begin, long end)
    : folder_(MakeTempFolder()) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), X509_free);
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), begin);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), end);
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME* name = X509_get_subject_name(cert.get());
  const std::string subject = "test " + names;
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert.get(), name);
  AddExtension(cert.get(), NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(cert.get(), NID_subject_alt_name, names);
  EMBER_CHECK(X509_sign(cert.get(), key.get(), EVP_sha256()) != 0, "signed");
  WriteFile(certificate(), [&](BIO* file) { return PEM_write_bio_X509(file, cert.get()); });
  WriteFile(this->key(), [&](BIO* file) {
    return PEM_write_bio_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

TestCertificate::~TestCertificate() { std::filesystem::remove_all(folder_); }

}  // namespace ember::http
