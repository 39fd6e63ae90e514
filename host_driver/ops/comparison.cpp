// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/comparison.hpp"

#include <cmath>
#include <cstdio>

#include "host_driver/base/error.hpp"
#include "host_driver/base/mutants.hpp"

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

}  // namespace

void Comparison::add(const Comparison& other) {
  elements += other.elements;
  differ += other.differ;
  if (!first) first = other.first;
}

Comparison compare(const Array& got, const Array& expected) {
  if (got.size != expected.size) {
    throw InvalidArgument(
        "results",
        "the result has shape " + index_text(got.size) + ", and " + index_text(expected.size) + " is expected",
        "compare results of the same operation");
  }
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
