// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/bench_bundles.hpp"

#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "host_driver/spyrecode/directory.hpp"
#include "tests/bench/card/attention_bundle.hpp"
#include "tests/bench/card/measurement_error.hpp"
#include "tests/support/bundle_builder.hpp"

namespace bench {

namespace {

using test::BundleBuilder;
using test::BundleTensor;

constexpr std::uint32_t kRows = 64;
constexpr std::uint32_t kColumns = 128;
constexpr std::int64_t kTensorBytes = std::int64_t{kRows} * kColumns * 2;
const std::vector<std::pair<std::string, std::uint32_t>> kExtents{{"mb", kRows}, {"out", kColumns}};

BundleTensor matrix(const std::string& base, std::int64_t offset = 0) {
  return {.order = {"mb", "out"}, .stick = "out", .base = base, .offset = offset};
}
// One number a row, as reductions leave it.
BundleTensor column(const std::string& base, std::int64_t offset) {
  BundleTensor tensor = matrix(base, offset);
  tensor.scale = {{"out", -2}};
  return tensor;
}

void add_softmax(BundleBuilder& builder, const BundleTensor& from, const BundleTensor& to) {
  const BundleTensor largest = column("pool", 0), sum = column("pool", kTensorBytes);
  const BundleTensor shifted = matrix("pool", 2 * kTensorBytes), powers = matrix("pool", 3 * kTensorBytes);
  builder.add({.op = "max", .extents = kExtents, .tensors = {from, largest}});
  builder.add({.op = "sub", .extents = kExtents, .tensors = {from, largest, shifted}});
  builder.add({.op = "exp", .extents = kExtents, .tensors = {shifted, powers}});
  builder.add({.op = "sum", .extents = kExtents, .tensors = {powers, sum}});
  builder.add({.op = "realdiv", .extents = kExtents, .tensors = {powers, sum, to}});
}

BundleBuilder make(BundleFolder::Content content) {
  if (content == BundleFolder::Content::Add) {
    BundleBuilder builder(3);
    builder.add({.op = "add", .extents = kExtents, .tensors = {matrix("arg_0"), matrix("arg_1"), matrix("arg_2")}});
    return builder;
  }
  if (content == BundleFolder::Content::Attention) return attention_bundle();
  BundleBuilder builder(2, 4 * kTensorBytes);
  add_softmax(builder, matrix("arg_0"), matrix("arg_1"));
  return builder;
}

}  // namespace

BundleFolder::BundleFolder(Content content) {
  std::string pattern = (std::filesystem::temp_directory_path() / "spyre-bench-XXXXXX").string();
  require(::mkdtemp(pattern.data()) != nullptr, "no folder for a bundle");
  path_ = pattern;
  const BundleBuilder builder = make(content);
  std::vector<std::pair<std::string, std::string>> texts{{"bundle.mlir", builder.read("bundle.mlir")}};
  for (const auto& [name, json] : builder.files()) texts.emplace_back(name, builder.read(name));
  std::vector<svp::spyrecode::NamedBytes> files;
  files.reserve(texts.size());
  for (const auto& [name, text] : texts) files.push_back({.name = name, .bytes = std::as_bytes(std::span(text))});
  svp::spyrecode::write_files(path_, files);
}

BundleFolder::~BundleFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace bench
