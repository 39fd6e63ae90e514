// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_bundles.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace test {

namespace {

constexpr std::array<const char*, 6> kNames{"mb", "x", "y", "i", "j", "out"};
constexpr std::uint32_t kStickElements = 64;

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), most_arguments_(below(40) == 0 ? 120 : 8) {}

  BundleBuilder make() {
    BundleBuilder builder(most_arguments_, kPoolBytes);
    choose_space();
    choose_slices();
    const unsigned loops = below(4) == 0 ? 1 + below(2) : 0;
    for (unsigned l = 0; l < loops; ++l) {
      counts_.push_back(1 + below(3));
      builder.begin_loop("%i_" + std::to_string(l), counts_.back());
    }
    switch (below(6)) {
      case 0: reduction(builder); break;
      case 1: product(builder); break;
      case 2: windows(builder); break;
      case 3: normalisation(builder); break;
      default: chain(builder); break;
    }
    for (unsigned l = 0; l < loops; ++l) builder.end_loop();
    return builder;
  }

  BundlePair make_pair() {
    BundlePair pair{BundleBuilder(most_arguments_, kPoolBytes), BundleBuilder(most_arguments_, kPoolBytes)};
    choose_space();
    choose_slices();
    const BundleTensor left = tensor("", std::int64_t{128} * below(64));
    between_ = std::int64_t{128} * 4096;
    chain(pair.first, argument(), left);
    arguments_ = 0;
    const BundleTensor result = argument();
    chain(pair.second, left, result);
    return pair;
  }

 private:
  static constexpr std::int64_t kPoolBytes = std::int64_t{4} << 20;
  static constexpr std::int64_t kBetweenBytes = std::int64_t{3} << 19;  // of pool and scratchpads

  unsigned below(unsigned count) { return static_cast<unsigned>(random_() % count); }

  void choose_space() {
    const unsigned rank = 2 + below(3);
    for (unsigned d = 0; d < rank; ++d) {
      const bool stick = d + 1 == rank;
      extents_.emplace_back(stick ? "out" : kNames[d], stick ? kStickElements * (1 + below(3)) : 1 + below(6));
    }
  }

  // Divisors, so that at most 32 cores work; a stick dimension is divided between sticks.
  void choose_slices() {
    std::uint32_t cores = 1;
    for (const auto& [name, extent] : extents_) {
      const std::uint32_t units = name == "out" ? extent / kStickElements : extent;
      const std::uint32_t parts = 1 + below(units);
      if (units % parts != 0 || cores * parts > 32 || below(2) == 0) continue;
      slices_[name] = parts;
      cores *= parts;
    }
  }

  BundleTensor tensor(const std::string& base, std::int64_t offset = 0) {
    BundleTensor result{.stick = "out", .base = base, .offset = offset};
    for (const auto& [name, extent] : extents_) result.order.push_back(name);
    std::ranges::shuffle(result.order, random_);
    return result;
  }
  // A tile of a larger tensor that moves with the loops: whole tiles, one behind the other in the outermost dimension.
  void place_in_loops(BundleTensor& result) {
    if (counts_.empty() || below(3) == 0) return;
    for (std::size_t l = 0; l < counts_.size(); ++l) {
      result.loops["%i_" + std::to_string(l)] = 128 * static_cast<std::int64_t>(below(5)) * 64;
    }
  }
  void add_gap(BundleTensor& result) {
    for (const auto& [name, extent] : extents_) {
      if (below(4) == 0) result.gap[name] = name == "out" ? kStickElements * (1 + below(2)) : 1 + below(5);
    }
  }
  BundleTensor argument() {
    BundleTensor result = tensor("arg_" + std::to_string(arguments_++));
    if (below(3) == 0) add_gap(result);
    if (below(3) == 0) result.offset = 128 * static_cast<std::int64_t>(below(8));
    place_in_loops(result);
    return result;
  }
  // What is not present stands last, as torch-spyre writes it.
  static void put_absent_last(BundleTensor& result) {
    std::vector<std::string> present, absent;
    for (const std::string& name : result.order) (result.scale.contains(name) ? absent : present).push_back(name);
    present.insert(present.end(), absent.begin(), absent.end());
    result.order = std::move(present);
  }
  // One that lacks some dimensions.
  BundleTensor repeated() {
    BundleTensor result = argument();
    result.gap.clear();
    for (const auto& [name, extent] : extents_) {
      if (below(3) == 0) result.scale[name] = name == "out" ? -2 : -1;
    }
    put_absent_last(result);
    return result;
  }
  // Between two operations: the pool, or the scratchpads of the cores.
  BundleTensor between() {
    const std::int64_t offset = between_;
    between_ = (between_ + std::int64_t{128} * 1024) % kBetweenBytes;  // a chain reads what was written last
    return tensor(below(2) == 0 ? "pool" : "", offset);
  }

  void chain(BundleBuilder& builder) { chain(builder, argument(), std::nullopt); }
  // From a tensor to another one, or to an argument.
  void chain(BundleBuilder& builder, BundleTensor current, const std::optional<BundleTensor>& last) {
    static constexpr std::array kTwo{"add", "sub", "mul", "maximum", "minimum", "greaterthan", "equal"};
    static constexpr std::array kOne{"abs", "neg", "relufwd", "identity", "floor"};
    const unsigned count = 1 + below(most_arguments_ > 8 ? 100 : 3);
    for (unsigned i = 0; i < count; ++i) {
      const BundleTensor result = i + 1 < count ? between() : last ? *last : argument();
      const bool two = below(2) == 0 && arguments_ + 2 < most_arguments_;
      BundleOperation operation{.op = two ? kTwo[below(kTwo.size())] : kOne[below(kOne.size())],
                                .extents = extents_,
                                .tensors = {current},
                                .slices = slices_};
      if (two) operation.tensors.push_back(repeated());
      operation.tensors.push_back(result);
      builder.add(operation);
      current = result;
    }
  }

  void reduction(BundleBuilder& builder) {
    static constexpr std::array kReductions{"sum", "max", "min"};
    BundleOperation operation{
        .op = kReductions[below(kReductions.size())], .extents = extents_, .tensors = {argument()}, .slices = slices_};
    BundleTensor result = argument();
    result.gap.clear();
    for (const auto& [name, extent] : extents_) {
      if (below(2) == 0) result.scale[name] = name == "out" ? -2 : -1;
    }
    put_absent_last(result);
    // A divided dimension that is reduced: all of its cores have one address.
    operation.tensors.push_back(result);
    builder.add(operation);
  }

  void product(BundleBuilder& builder) {
    extents_ = {
        {"mb", 1 + below(20)}, {"in", kStickElements * (1 + below(2))}, {"out", kStickElements * (1 + below(2))}};
    slices_.clear();
    if (extents_[0].second % 2 == 0 && below(2) == 0) slices_["mb"] = 2;
    if (extents_[2].second == 128 && below(2) == 0) slices_["out"] = 2;
    const auto of = [&](std::vector<std::string> order, const std::string& stick) {
      if (below(2) == 0) std::ranges::reverse(order);
      BundleTensor result{.order = std::move(order), .stick = stick, .base = "arg_" + std::to_string(arguments_++)};
      return result;
    };
    builder.add({.op = "batchmatmul",
                 .extents = extents_,
                 .tensors = {of({"mb", "in"}, "in"), of({"in", "out"}, "out"), of({"mb", "out"}, "out")},
                 .slices = slices_});
  }

  // The pair that exx2 leaves in a stick, copied once or more, and what is made of it.
  void normalisation(BundleBuilder& builder) {
    extents_.back().second = kStickElements;
    slices_.erase("out");
    const auto alone = [](BundleTensor result) {
      result.gap.clear();
      result.scale = {{"out", -2}};
      put_absent_last(result);
      return result;
    };
    BundleTensor pair = alone(between());
    builder.add({.op = "exx2",
                 .extents = extents_,
                 .tensors = {argument(), pair},
                 .slices = slices_,
                 .constants = {{"exx2scale", 0x3200}}});  // 1/64
    for (unsigned copies = 1 + below(2); copies > 0; --copies) {
      const BundleTensor copy = alone(below(3) == 0 ? argument() : between());
      builder.add({.op = "identity", .extents = extents_, .tensors = {pair, copy}, .slices = slices_});
      pair = copy;
    }
    builder.add({.op = "layernormscale",
                 .extents = extents_,
                 .tensors = {pair, argument()},
                 .slices = slices_,
                 .constants = {{"eps", 0x3E00}}});  // 1
  }

  // One of the operations over windows, on images [mb, i, j, channels].
  void windows(BundleBuilder& builder) {
    const unsigned kind = below(3);
    const bool convolves = kind == 1;  // over all channels
    BundleOperation operation{.op = std::array{"avgpoolfwd", "conv2d", "depthwiseconv2dnative"}[kind]};
    operation.extents = {{"mb", 1 + below(3)}, {"i", 1 + below(5)},
                         {"j", 1 + below(5)},  {"out", kStickElements * (1 + below(2))},
                         {"ki", 1 + below(3)}, {"kj", 1 + below(3)}};
    if (convolves) operation.extents.emplace_back("in", kStickElements * (1 + below(2)));
    // A product is slow to compute in tests.
    for (auto& [name, extent] : operation.extents) {
      if (convolves && name != "in" && name != "out") extent = std::min(extent, 2u);
      if (convolves && name == "in") extent = kStickElements;
    }
    if (kind == 0) operation.constants = {{"nmap", 0x3C00}};
    std::map<std::string, std::int64_t> gaps;
    for (const auto& [dimension, taps] : {std::pair<std::string, std::string>{"i", "ki"}, {"j", "kj"}}) {
      BundleWindow window{.taps = taps, .stride = 1 + below(3), .dilation = 1 + below(2)};
      const auto extent = [&](const std::string& name) {
        return std::ranges::find(operation.extents, name, &std::pair<std::string, std::uint32_t>::first)->second;
      };
      window.elements = (extent(dimension) - 1) * window.stride + (extent(taps) - 1) * window.dilation + 1;
      // Elements behind the last window. A pool says them in a gap, in strides where they are whole.
      const std::uint32_t all = window.elements + below(window.stride);
      gaps[dimension] = (all % window.stride == 0 ? all / window.stride : all) - extent(dimension);
      if (kind != 0) window.elements = all;
      if (extent(dimension) % 2 == 0 && below(2) == 0) operation.slices[dimension] = 2;
      operation.windows[dimension] = window;
    }
    const auto of = [&](std::vector<std::string> order, const std::string& stick) {
      std::ranges::shuffle(order, random_);
      BundleTensor result{.order = std::move(order), .stick = stick, .base = "arg_" + std::to_string(arguments_++)};
      place_in_loops(result);
      return result;
    };
    const std::string channels = convolves ? "in" : "out";
    BundleTensor images = of({"mb", "i", "j", channels}, channels);
    images.windowed = {"i", "j"};
    if (kind == 0) images.gap = gaps;
    operation.tensors = {images};
    if (convolves) operation.tensors.push_back(of({"in", "out", "ki", "kj"}, "out"));
    if (kind == 2) operation.tensors.push_back(of({"out", "ki", "kj"}, "out"));
    operation.tensors.push_back(of({"mb", "i", "j", "out"}, "out"));
    builder.add(operation);
  }

  std::mt19937_64 random_;
  std::vector<std::pair<std::string, std::uint32_t>> extents_;
  std::map<std::string, std::uint32_t> slices_;
  std::vector<std::uint32_t> counts_;
  unsigned arguments_ = 0;
  unsigned most_arguments_;
  std::int64_t between_ = 0;
};

}  // namespace

BundleBuilder random_bundle(std::uint64_t seed) { return Generator(seed).make(); }

BundlePair random_pair(std::uint64_t seed) { return Generator(seed).make_pair(); }

}  // namespace test
