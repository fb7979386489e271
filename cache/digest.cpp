#include "cache/digest.h"

// The functions that do SHA-256 and nothing else. The newer ones choose among providers: with them, and all
// that they need, nine tenths of a library that has libcrypto linked in would be libcrypto.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

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
  Context() { SHA256_Init(&state); }  // none of the three calls can fail
  SHA256_CTX state;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;

Sha256& Sha256::append(std::string_view bytes) {
  SHA256_Update(&context_->state, bytes.data(), bytes.size());
  return *this;
}

Digest Sha256::finish() {
  Digest digest;
  SHA256_Final(digest.bytes.data(), &context_->state);
  return digest;
}

Digest sha256(std::string_view bytes) { return Sha256().append(bytes).finish(); }

}  // namespace jfa
