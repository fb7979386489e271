#include "cache/digest.h"

#include <openssl/evp.h>

#include <new>

namespace jfa {

std::string Digest::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * kBytes);
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<Digest> parse_digest(std::string_view hex) {
  if (hex.size() != 2 * Digest::kBytes) return std::nullopt;
  Digest digest;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[i];
    // Upper case is refused: one digest has one spelling, as a file name must.
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    std::uint8_t& byte = digest.bytes[i / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | digit);
  }
  return digest;
}

struct Sha256::Context {
  Context() : handle(EVP_MD_CTX_new()) {
    // Only memory can be missing here.
    if (handle == nullptr || EVP_DigestInit_ex(handle, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  }
  ~Context() { EVP_MD_CTX_free(handle); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  EVP_MD_CTX* handle;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;

Sha256& Sha256::append(std::string_view bytes) {
  if (EVP_DigestUpdate(context_->handle, bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
  return *this;
}

Digest Sha256::finish() {
  Digest digest;
  if (EVP_DigestFinal_ex(context_->handle, digest.bytes.data(), nullptr) != 1) throw std::bad_alloc();
  return digest;
}

Digest sha256(std::string_view bytes) { return Sha256().append(bytes).finish(); }

}  // namespace jfa
