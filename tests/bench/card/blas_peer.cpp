// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/blas_peer.hpp"

#include "tests/bench/card/shared_object.hpp"

namespace bench {

std::expected<std::unique_ptr<BlasPeer>, std::string> BlasPeer::open() {
  const auto library = SharedObject::open("libopenblas.so.0");
  if (!library) return std::unexpected(library.error());
  auto peer = std::make_unique<BlasPeer>();
  void (*set_threads)(int) = nullptr;
  if (!library->find("cblas_sgemm", peer->sgemm_) || !library->find("openblas_set_num_threads", set_threads)) {
    return std::unexpected("libopenblas.so.0 has no cblas_sgemm or no openblas_set_num_threads");
  }
  set_threads(1);
  return peer;
}

void BlasPeer::sgemm(std::span<const float> a, std::span<const float> b, std::span<float> c, std::size_t m,
                     std::size_t n, std::size_t k) const {
  constexpr int kRowMajor = 101;
  constexpr int kAsIs = 111;
  const auto [rows, columns, depth] = std::tuple{static_cast<int>(m), static_cast<int>(n), static_cast<int>(k)};
  sgemm_(kRowMajor, kAsIs, kAsIs, rows, columns, depth, 1.0f, a.data(), depth, b.data(), columns, 0.0f, c.data(),
         columns);
}

}  // namespace bench
