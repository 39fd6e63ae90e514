// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "host_driver/models/transformer.hpp"

namespace svp::models {
namespace {

using Row = std::vector<double>;

Row row_of(const Matrix& matrix, std::size_t row) {
  const auto width = static_cast<std::size_t>(matrix.size.back());
  const auto from = matrix.values.begin() + static_cast<std::ptrdiff_t>(row * width);
  return {from, from + static_cast<std::ptrdiff_t>(width)};
}

Row times(const Row& row, const Matrix& matrix) {
  const auto columns = static_cast<std::size_t>(matrix.size[1]);
  Row result(columns);
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (std::size_t j = 0; j < columns; ++j) result[j] += row[i] * static_cast<double>(matrix.values[i * columns + j]);
  }
  return result;
}

void add_to(Row& row, const Row& other) {
  for (std::size_t i = 0; i < row.size(); ++i) row[i] += other[i];
}

Row normed(const Row& row, const Matrix& weight, const Matrix& bias) {
  double mean = 0;
  double squares = 0;
  const auto count = static_cast<double>(row.size());
  for (const double x : row) mean += x / count;
  for (const double x : row) squares += (x - mean) * (x - mean) / count;
  Row result(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    result[i] = (row[i] - mean) / std::sqrt(squares + 1e-5) * static_cast<double>(weight.values[i]) +
                static_cast<double>(bias.values[i]);
  }
  return result;
}

double gelu_of(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.141592653589793) * (x + 0.044715 * x * x * x)));
}

}  // namespace

struct ReferenceTransformer::Layer {
  std::vector<Row> keys;
  std::vector<Row> values;

  Row attend(const Row& query, unsigned heads) const {
    const std::size_t width = query.size() / heads;
    Row result(query.size());
    for (std::size_t head = 0; head < heads; ++head) {
      Row scores;
      for (const Row& key : keys) {
        double sum = 0;
        for (std::size_t i = head * width; i < (head + 1) * width; ++i) sum += query[i] * key[i];
        scores.push_back(sum / std::sqrt(static_cast<double>(width)));
      }
      const double largest = *std::ranges::max_element(scores);
      double total = 0;
      for (double& score : scores) total += score = std::exp(score - largest);
      for (std::size_t j = 0; j < scores.size(); ++j) {
        for (std::size_t i = head * width; i < (head + 1) * width; ++i) result[i] += scores[j] / total * values[j][i];
      }
    }
    return result;
  }
};

ReferenceTransformer::ReferenceTransformer(const TransformerConfig& config, const TransformerWeights& weights)
    : config_(config), weights_(weights), cache_(config.layers) {}
ReferenceTransformer::~ReferenceTransformer() = default;

std::vector<double> ReferenceTransformer::step(unsigned token) {
  Row hidden = row_of(weights_.token, token);
  add_to(hidden, row_of(weights_.position, at_++));
  for (std::size_t i = 0; i < cache_.size(); ++i) {
    const LayerWeights& w = weights_.layers[i];
    const Row first = normed(hidden, w.norm1, w.bias1);
    cache_[i].keys.push_back(times(first, w.key));
    cache_[i].values.push_back(times(first, w.value));
    add_to(hidden, times(cache_[i].attend(times(first, w.query), config_.heads), w.output));
    Row inner = times(normed(hidden, w.norm2, w.bias2), w.up);
    add_to(inner, row_of(w.up_bias, 0));
    for (double& x : inner) x = gelu_of(x);
    add_to(hidden, times(inner, w.down));
    add_to(hidden, row_of(w.down_bias, 0));
  }
  return times(normed(hidden, weights_.norm, weights_.bias), weights_.logits);
}

}  // namespace svp::models
