// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/attention_bundle.hpp"

#include <string>
#include <utility>

namespace bench {

namespace {

using test::BundleBuilder;
using test::BundleTensor;
using Extents = std::vector<std::pair<std::string, std::uint32_t>>;
using Slices = std::map<std::string, std::uint32_t>;

constexpr std::uint32_t kCores = 32;
constexpr std::uint32_t kLanes = 64;  // of a stick
constexpr std::size_t kStick = 128;
constexpr std::int64_t kMatrixBytes =
    std::int64_t{kStick} * kAttentionBatch * kAttentionHeads * kAttentionRows * kAttentionWidth / kLanes;
constexpr std::int64_t kPart = kMatrixBytes / kCores;  // of a scratchpad
static_assert(kAttentionWidth == kLanes && kAttentionRows % kLanes == 0);

// mb and x count batches and heads, y rows of the queries, out columns.
Extents extents_of(std::uint32_t columns) {
  return {{"mb", kAttentionBatch}, {"out", columns}, {"x", kAttentionHeads}, {"y", kAttentionRows}};
}
const Extents kMatrix = extents_of(kAttentionWidth), kScores = extents_of(kAttentionRows);
const Slices kByRows{{"y", kCores}};
const Slices kByHeads{
    {"mb", kAttentionBatch}, {"x", kAttentionHeads}, {"y", kCores / (kAttentionBatch * kAttentionHeads)}};

// [batch, heads, rows, width]
BundleTensor matrix(const std::string& base, std::int64_t offset = 0) {
  return {.order = {"mb", "y", "x", "out"}, .stick = "out", .base = base, .offset = offset};
}
// One number a row, in lane 0 of a stick; as matrix() it is read and written with all lanes.
BundleTensor column(const std::string& base, std::int64_t offset = 0) {
  BundleTensor tensor = matrix(base, offset);
  tensor.scale = {{"out", -2}};
  return tensor;
}
// One number for all.
BundleTensor number(const std::string& base) {
  return {.order = {"out", "x", "y", "mb"},
          .stick = "out",
          .scale = {{"out", -2}, {"x", -1}, {"y", -1}, {"mb", -1}},
          .base = base};
}
BundleTensor scores(std::int64_t offset) {
  return {.order = {"mb", "out", "y", "x"}, .stick = "out", .base = {}, .offset = offset};
}
BundleTensor mask() {
  return {.order = {"y", "out", "mb", "x"}, .stick = "out", .scale = {{"mb", -1}, {"x", -1}}, .base = "arg_5"};
}

// Where values are in the scratchpads, and in the pool.
constexpr std::int64_t kMaximum = 0, kQueries = kPart, kCopiedQueries = 2 * kPart, kKeys = 3 * kPart;
constexpr std::int64_t kShuffledKeys = 4 * kPart, kScoresAt = 5 * kPart;
constexpr std::int64_t kNewMaximum = kScoresAt + kPart * kAttentionRows / kLanes, kMixed = kNewMaximum + kPart;
constexpr std::int64_t kProduct = kMixed + kPart;
constexpr std::int64_t kStart = 0, kOperand = kMatrixBytes;

void add(BundleBuilder& builder, const std::string& op, const Extents& extents, std::vector<BundleTensor> tensors,
         const Slices& slices = kByRows) {
  builder.add({.op = op, .extents = extents, .tensors = std::move(tensors), .slices = slices});
}

// The result is 0, the maximum of each row -infinity.
void add_start(BundleBuilder& builder) {
  add(builder, "identity", kMatrix, {number("arg_0"), matrix("arg_7")});
  add(builder, "identity", kMatrix, {number("arg_1"), matrix("pool", kStart)});
  add(builder, "max", kMatrix, {matrix("pool", kStart), column("", kMaximum)});
}

void add_scores(BundleBuilder& builder) {
  add(builder, "mul", kMatrix, {matrix("arg_2"), number("arg_3"), matrix("", kQueries)});
  add(builder, "identity", kMatrix, {matrix("", kQueries), matrix("", kCopiedQueries)});
  add(builder, "mul", kMatrix, {matrix("arg_4"), number("arg_3"), matrix("", kKeys)});
  BundleTensor by_rows = matrix("", kKeys), by_heads = matrix("", kShuffledKeys);
  by_rows.owners = kByRows;
  by_heads.owners = kByHeads;
  add(builder, "shuffle", kMatrix, {by_rows, by_heads}, kByHeads);
  BundleTensor transposed{.order = {"mb", "y", "out", "x"}, .stick = "y", .base = "pool", .offset = kOperand};
  add(builder, "ReStickifyOpHBM", kMatrix, {matrix("", kShuffledKeys), transposed}, kByHeads);
  const Extents product{{"in", kAttentionWidth},
                        {"mb", kAttentionBatch},
                        {"out", kAttentionRows},
                        {"x", kAttentionHeads},
                        {"y", kAttentionRows}};
  BundleTensor queries = matrix("", kCopiedQueries);
  queries.order.back() = queries.stick = "in";
  transposed.order = {"mb", "out", "in", "x"};
  transposed.stick = "out";
  add(builder, "batchmatmul", product, {queries, transposed, scores(kScoresAt)});
  add(builder, "add", kScores, {scores(kScoresAt), mask(), scores(kScoresAt)});
}

// What a new maximum changes in what is there: exp(old - new).
void add_correction(BundleBuilder& builder) {
  add(builder, "max", kScores, {scores(kScoresAt), column("", kNewMaximum)});
  add(builder, "maximum", kMatrix, {matrix("", kMaximum), matrix("", kNewMaximum), matrix("", kNewMaximum)});
  add(builder, "sub", kMatrix, {matrix("", kMaximum), matrix("", kNewMaximum), matrix("", kMaximum)});
  add(builder, "exp", kMatrix, {matrix("", kMaximum), matrix("", kMaximum)});
  add(builder, "mul", kMatrix, {matrix("arg_7"), column("", kMaximum), matrix("", kMixed)});
}

void add_values(BundleBuilder& builder) {
  add(builder, "sub", kScores, {scores(kScoresAt), column("", kNewMaximum), scores(kScoresAt)});
  add(builder, "exp", kScores, {scores(kScoresAt), scores(kScoresAt)});
  add(builder, "identity", kMatrix, {matrix("arg_6"), matrix("pool", kOperand)});
  const Extents product{{"in", kAttentionRows},
                        {"mb", kAttentionBatch},
                        {"out", kAttentionWidth},
                        {"x", kAttentionHeads},
                        {"y", kAttentionRows}};
  BundleTensor weights = scores(kScoresAt), values = matrix("pool", kOperand);
  weights.order = {"mb", "in", "y", "x"};
  weights.stick = "in";
  values.order = {"mb", "in", "x", "out"};
  add(builder, "batchmatmul", product, {weights, values, matrix("", kProduct)});
  add(builder, "add", kMatrix, {matrix("", kMixed), matrix("", kProduct), matrix("", kMixed)});
  add(builder, "identity", kMatrix, {matrix("", kMixed), matrix("arg_7")});
}

// Divided by the sum of the row's powers.
void add_end(BundleBuilder& builder) {
  add(builder, "identity", kMatrix, {number("arg_0"), matrix("pool", kStart)});
  add(builder, "max", kMatrix, {matrix("pool", kStart), column("pool", kStart)});
  add(builder, "mul", kMatrix, {matrix("pool", kStart), matrix("", kMaximum), matrix("", kMaximum)});
  add(builder, "sum", kScores, {scores(kScoresAt), column("", kNewMaximum)});
  add(builder, "add", kMatrix, {matrix("", kMaximum), matrix("", kNewMaximum), matrix("", kMaximum)});
  add(builder, "identity", kMatrix, {matrix("", kMaximum), matrix("pool", kStart)});
  add(builder, "realdiv", kMatrix, {matrix("arg_7"), column("pool", kStart), matrix("", kMixed)});
  add(builder, "identity", kMatrix, {matrix("", kMixed), matrix("arg_7")});
}

}  // namespace

BundleBuilder attention_bundle() {
  BundleBuilder builder(8, 2 * kMatrixBytes);
  add_start(builder);
  add_scores(builder);
  add_correction(builder);
  add_values(builder);
  add_end(builder);
  return builder;
}

std::vector<std::size_t> attention_bytes() {
  constexpr std::size_t kMask = kStick * kAttentionRows * kAttentionRows / kLanes;
  return {kStick, kStick, kMatrixBytes, kStick, kMatrixBytes, kMask, kMatrixBytes, kMatrixBytes};
}

std::vector<std::size_t> attention_places() {
  std::vector<std::size_t> places;
  for (std::size_t batch = 0; batch < kAttentionBatch; ++batch) {
    for (std::size_t row = 0; row < std::size_t{kAttentionHeads} * kAttentionRows; ++row) {
      for (std::size_t lane = 0; lane < kAttentionWidth; ++lane) {
        places.push_back((row * kAttentionBatch + batch) * kLanes + lane);
      }
    }
  }
  return places;
}

std::vector<std::size_t> attention_mask_places() {
  std::vector<std::size_t> places;
  for (std::size_t row = 0; row < kAttentionRows; ++row) {
    for (std::size_t key = 0; key < kAttentionRows; ++key) {
      places.push_back((key / kLanes * kAttentionRows + row) * kLanes + key % kLanes);
    }
  }
  return places;
}

}  // namespace bench
