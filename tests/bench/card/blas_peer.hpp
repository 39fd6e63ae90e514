// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <expected>
#include <memory>
#include <span>
#include <string>

namespace bench {

// OpenBLAS on one thread, loaded when the bench runs. The error says what is missing.
class BlasPeer {
 public:
  static std::expected<std::unique_ptr<BlasPeer>, std::string> open();

  // c[m,n] = a[m,k] * b[k,n], row-major.
  void sgemm(std::span<const float> a, std::span<const float> b, std::span<float> c, std::size_t m, std::size_t n,
             std::size_t k) const;

 private:
  using Sgemm = void(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                     int lda, const float* b, int ldb, float beta, float* c, int ldc);
  Sgemm* sgemm_ = nullptr;
};

}  // namespace bench
