// SHA-256 (FIPS 180-4), to name entries of a cache by their content and to notice damage.
//
//   Sha256 hash;
//   hash.add(text);
//   hash.hex()   // 64 digits
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nibble::cuda {

class Sha256 {
 public:
  void add(std::string_view bytes);
  // The bytes with their number before them: two parts cannot be taken for one.
  void add_part(std::string_view bytes);
  std::string hex() const;  // of all that was added so far

 private:
  static constexpr std::size_t kBlockBytes = 64;

  void compress(const unsigned char* block);
  void finish();

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlockBytes> block_ = {};
  std::size_t filled_ = 0;  // bytes of block_
  std::uint64_t bytes_ = 0;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace nibble::cuda
