// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/matmul_problem.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <thread>

#include "host_driver/base/error.hpp"
#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "shared/units.hpp"

namespace cli {

namespace {

std::vector<std::uint16_t> random_fp16(std::size_t count, std::mt19937_64& random) {
  std::vector<std::uint16_t> values(count);
  for (auto& value : values) {
    // 24 random bits make every fp16 value of the interval possible.
    const auto bits = static_cast<std::int32_t>(random() >> 39) - (1 << 24);
    value = std::bit_cast<std::uint16_t>(static_cast<_Float16>(static_cast<float>(bits) / (1 << 24)));
  }
  return values;
}

std::vector<std::uint16_t> to_dl16(const std::vector<std::uint16_t>& fp16) {
  std::vector<std::uint16_t> out(fp16.size());
  std::transform(fp16.begin(), fp16.end(), out.begin(), [](std::uint16_t bits) { return wire::dl16_from_fp16(bits); });
  return out;
}

// Rows [first, last) of the product and of Σ|a·b| in double precision.
struct DoubleRows {
  std::vector<double> sum;
  std::vector<double> scale;
};
void multiply_row(const std::uint16_t* a, const std::vector<double>& b, std::size_t n, std::size_t k, DoubleRows& row) {
  std::fill(row.sum.begin(), row.sum.end(), 0.0);
  std::fill(row.scale.begin(), row.scale.end(), 0.0);
  for (std::size_t i = 0; i < k; ++i) {
    const double x = wire::fp64_from_dl16(a[i]);
    const double* y = b.data() + i * n;
    for (std::size_t j = 0; j < n; ++j) {
      const double product = x * y[j];
      row.sum[j] += product;
      row.scale[j] += std::fabs(product);
    }
  }
}

// fp32 accumulation over k / 64 exact chunk sums, then one rounding to 9 fraction bits.
double error_bound(double sum, double scale, std::size_t k) {
  const double chunks = static_cast<double>((k + 63) / 64);
  return (chunks + 1) * std::ldexp(scale, -24) + std::ldexp(std::fabs(sum), -10) * 1.001 + std::ldexp(1.0, -32);
}

MatmulCheck check_rows(const MatmulProblem& problem, std::span<const std::uint16_t> a,
                       const std::vector<std::uint16_t>& b, const std::vector<double>& b_double,
                       const std::vector<float>& c, std::size_t first, std::size_t last) {
  const auto [m, n, k] = std::tuple{last - first, problem.n, problem.k};
  std::vector<std::uint16_t> golden(m * n);
  svp::golden::matmul_dl16(a.subspan(first * k, m * k), b, golden, m, n, k);
  MatmulCheck check;
  check.elements = m * n;
  DoubleRows row{std::vector<double>(n), std::vector<double>(n)};
  for (std::size_t i = 0; i < m; ++i) {
    multiply_row(a.data() + (first + i) * k, b_double, n, k, row);
    for (std::size_t j = 0; j < n; ++j) {
      const float value = c[(first + i) * n + j];
      const std::uint32_t wanted = wire::fp32_bits_from_dl16(golden[i * n + j]);
      check.mismatches += std::bit_cast<std::uint32_t>(value) != wanted ? 1 : 0;
      const double error = std::fabs(static_cast<double>(value) - row.sum[j]);
      check.beyond_bound += error <= error_bound(row.sum[j], row.scale[j], k) ? 0 : 1;
      check.largest_error = std::max(check.largest_error, error);
      if (row.scale[j] > 0) check.largest_relative_error = std::max(check.largest_relative_error, error / row.scale[j]);
    }
  }
  return check;
}

}  // namespace

std::uint64_t memory_needed(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  // Bytes per element: the input in fp16, its DL16 copy of the check, the layout buffer of the transfer, the card's
  // own; of B also the doubles of the check; of C the result in fp32 and the golden one. Extents are at most 2^20.
  constexpr std::uint64_t kA = 8, kB = 16, kC = 12;
  return kA * m * k + kB * k * n + kC * m * n;
}

void require_memory(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t available) {
  const std::uint64_t needed = memory_needed(m, n, k);
  if (needed <= available) return;
  const auto mib = [](std::uint64_t bytes) { return std::to_string(bytes / wire::kMiB) + " MiB"; };
  throw svp::InvalidArgument("--m, --n, --k",
                             "A[" + std::to_string(m) + "," + std::to_string(k) + "] x B[" + std::to_string(k) + "," +
                                 std::to_string(n) + "] needs " + mib(needed) + " of this machine's memory, " +
                                 mib(available) + " are available",
                             "give smaller extents, or use a machine with more memory");
}

MatmulProblem make_problem(std::size_t m, std::size_t n, std::size_t k, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  MatmulProblem problem{m, n, k, {}, {}};
  problem.a = random_fp16(m * k, random);
  problem.b = random_fp16(k * n, random);
  return problem;
}

MatmulCheck check_result(const MatmulProblem& problem, const std::vector<float>& c, unsigned threads) {
  const auto a = to_dl16(problem.a);
  const auto b = to_dl16(problem.b);
  std::vector<double> b_double(b.size());
  std::transform(b.begin(), b.end(), b_double.begin(), [](std::uint16_t v) { return wire::fp64_from_dl16(v); });
  std::vector<MatmulCheck> parts(std::max(1u, threads));
  std::vector<std::thread> workers;
  for (std::size_t t = 0; t < parts.size(); ++t) {
    const std::size_t first = problem.m * t / parts.size();
    const std::size_t last = problem.m * (t + 1) / parts.size();
    workers.emplace_back([&, t, first, last] { parts[t] = check_rows(problem, a, b, b_double, c, first, last); });
  }
  for (auto& worker : workers) worker.join();  // bounded: each computes its share of the golden result
  MatmulCheck sum;
  for (const MatmulCheck& part : parts) {
    sum.elements += part.elements;
    sum.mismatches += part.mismatches;
    sum.beyond_bound += part.beyond_bound;
    sum.largest_error = std::max(sum.largest_error, part.largest_error);
    sum.largest_relative_error = std::max(sum.largest_relative_error, part.largest_relative_error);
  }
  return sum;
}

}  // namespace cli
