// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "host_driver/base/error.hpp"
#include "host_driver/base/mutants.hpp"
#include "host_driver/ops/elements.hpp"

namespace svp::ops {
namespace {

bool same_value(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::vector<std::int64_t> index_of(const std::vector<std::int64_t>& size, std::size_t at) {
  std::vector<std::int64_t> index(size.size());
  auto rest = static_cast<std::int64_t>(at);
  for (std::size_t d = size.size(); d-- > 0; rest /= size[d]) index[d] = rest % size[d];
  return index;
}

// Nine digits tell any two numbers of fp32 apart.
std::string value_text(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", value);
  return digits;
}

std::string index_text(const std::vector<std::int64_t>& index) {
  std::string text = "[";
  for (const std::int64_t i : index) text += (text.size() == 1 ? "" : ",") + std::to_string(i);
  return text + "]";
}

void require_one_shape(const Array& got, const Array& expected) {
  if (got.size == expected.size) return;
  throw InvalidArgument(
      "results", "the result has shape " + index_text(got.size) + ", and " + index_text(expected.size) + " is expected",
      "compare results of the same operation");
}

// The distance between neighbours of the format at this magnitude.
double spacing(DeviceType type, double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  if (type == DeviceType::Fp32) return std::ldexp(1.0, std::max(std::ilogb(value) - 23, -149));
  return type == DeviceType::Dl16 ? std::ldexp(1.0, std::ilogb(value) - 9) : 0;
}

constexpr double kNoBound = std::numeric_limits<double>::infinity();

}  // namespace

void Comparison::add(const Comparison& other) {
  elements += other.elements;
  differ += other.differ;
  if (!first) first = other.first;
}

void Judgement::add(const Judgement& other) {
  beyond.add(other.beyond);
  largest_error = std::max(largest_error, other.largest_error);
  relative_error = std::max(relative_error, other.relative_error);
  worst = std::max(worst, other.worst);
}

Judgement judge(const Array& got, const Array& exact, DeviceType device_dtype, const Bound& bound) {
  require_one_shape(got, exact);
  double largest = 0;
  for (const double x : exact.data) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
  Judgement judgement{.beyond = {.elements = exact.data.size()}};
  for (std::size_t i = 0; i < exact.data.size(); ++i) {
    const double expected = rounded_to(device_dtype, exact.data[i]);
    if (same_value(got.data[i], expected)) continue;
    const double error = std::fabs(got.data[i] - expected);
    const double allowed = bound.ulps * spacing(device_dtype, expected) + bound.relative * largest;
    judgement.worst = std::max(judgement.worst, allowed > 0 && std::isfinite(error) ? error / allowed : kNoBound);
    if (std::isfinite(error)) judgement.largest_error = std::max(judgement.largest_error, error);
    if (error <= allowed || mutated(HostMutant::Comparison)) continue;
    if (judgement.beyond.differ++ == 0) judgement.beyond.first = {index_of(exact.size, i), got.data[i], expected};
  }
  if (largest != 0) judgement.relative_error = judgement.largest_error / largest;
  return judgement;
}

std::optional<std::string> beyond_bound(Op op, DeviceType device_dtype, const Array& got, const Array& exact) {
  if (got.size != exact.size) return "shape " + index_text(got.size) + ", not " + index_text(exact.size);
  const Bound bound = bound_of(info_of(op), device_dtype);
  const Judgement judgement = judge(got, exact, device_dtype, bound);
  if (judgement.within()) return std::nullopt;
  return describe(judgement.beyond) + " beyond its bound, " + bound_text(bound);
}

Comparison compare(const Array& got, const Array& expected) {
  require_one_shape(got, expected);
  Comparison comparison{.elements = expected.data.size()};
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    if (same_value(got.data[i], expected.data[i]) || mutated(HostMutant::Comparison)) continue;
    if (comparison.differ++ == 0) {
      comparison.first = {index_of(expected.size, i), got.data[i], expected.data[i]};
    }
  }
  return comparison;
}

std::string describe(const Comparison& comparison) {
  const std::string of = " of " + std::to_string(comparison.elements) + " elements ";
  if (comparison.equal()) return std::to_string(comparison.elements) + of + "equal";
  std::string text = std::to_string(comparison.differ) + of + "differ";
  if (!comparison.first || mutated(HostMutant::Difference)) return text;
  const Difference& first = *comparison.first;
  return "element " + index_text(first.element) + " is " + value_text(first.got) + ", not " +
         value_text(first.expected) + "; " + text;
}

}  // namespace svp::ops
