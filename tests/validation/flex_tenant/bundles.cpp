// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/flex_tenant/bundles.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/support/flex/launches.hpp"

namespace flex_test {

namespace {

// A launch with so many is given all cores.
constexpr std::size_t kElements = std::size_t{512} * 256;
// What the library allocates for the scratchpads of its programs.
constexpr std::size_t kScratchpads = (std::size_t{64} << 20) + 128;
constexpr std::size_t kFirstScratchpad = std::size_t{2} << 20;

std::vector<std::uint8_t> binary_of(const std::filesystem::path& plan) {
  for (const auto& entry : std::filesystem::directory_iterator(plan)) {
    if (entry.path().extension() != ".bin") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  throw std::runtime_error("there is no binary in " + plan.string());
}

}  // namespace

void Bundles::open(flex::RuntimeContext& runtime, flex::RuntimeStream& stream, flex::RuntimeStream& other) {
  allocator_ = runtime.getAllocator().get();
  stream_ = &stream;
  other_ = &other;
}

void Bundles::close() {
  prepared_.clear();
  tensors_.clear();
}

std::optional<std::string> Bundles::answer(const std::vector<std::string>& words) {
  const std::string& command = words.front();
  const Names names(words.begin() + 1, words.end());
  if (command == "fill") return fill(names.at(0), std::stod(names.at(1))), "";
  if (command == "holds") return holds(names.at(0), std::stof(names.at(1)));
  if (command == "prepare") return prepare(names.at(0)), "";
  if (command == "bundle") return launch(*stream_, names.at(0), names), "";
  if (command == "bundle-other") return launch(*other_, names.at(0), names), "";
  if (command == "overwrite") return overwrite(names.at(0), names.at(1)), "";
  if (command == "leave-values") return leave_values_behind(), "";
  return std::nullopt;
}

void Bundles::fill(const std::string& tensor, double value) {
  auto known = tensors_.find(tensor);
  if (known == tensors_.end()) {
    known = tensors_.emplace(tensor, allocator_->allocate(kElements * sizeof(std::uint16_t), tensor_memory())).first;
  }
  stream_->fillAsync(&known->second, value, DataFormats::SEN169_FP16, true);
  stream_->synchronize();
}

std::string Bundles::holds(const std::string& tensor, float value) {
  std::vector<std::uint16_t> codes(kElements);
  receive(*other_, codes.data(), codes.size() * sizeof codes[0], tensors_.at(tensor));
  other_->synchronize();
  const std::uint16_t expected = deeptools::FloatToFp16Bin(value);
  const auto wrong = std::ranges::find_if(codes, [&](std::uint16_t code) { return code != expected; });
  if (wrong == codes.end()) return "right";
  return "wrong: element " + std::to_string(wrong - codes.begin()) + " has the code " + std::to_string(*wrong) +
         ", not " + std::to_string(expected);
}

PreparedPlan& Bundles::prepare(const std::string& plan) {
  auto prepared = std::make_unique<PreparedPlan>(plans_ + "/" + plan, *allocator_, *stream_);
  stream_->synchronize();
  return *(prepared_[plan] = std::move(prepared));
}

// The first of the names is the plan's.
void Bundles::launch(flex::RuntimeStream& stream, const std::string& plan, const Names& names) {
  const auto known = prepared_.find(plan);
  const PreparedPlan& launched = known != prepared_.end() ? *known->second : prepare(plan);
  PreparedPlan::Tensors tensors;
  for (auto name = names.begin() + 1; name != names.end(); ++name) tensors.push_back(&tensors_.at(*name));
  launched.launch(stream, tensors, PreparedPlan::Addresses::Fast);
}

// The binary of another plan is sent to where that of this one lies.
void Bundles::overwrite(const std::string& plan, const std::string& by) {
  const PreparedPlan& known = *prepared_.at(plan);
  const std::vector<std::uint8_t> binary = binary_of(plans_ + "/" + by);
  const std::uint64_t place = known.computation().bootstrap_offset;
  send(*stream_, binary.data(), binary.size(), part_of(known.program(), place, binary.size()));
  stream_->synchronize();
}

// In memory that is freed, where the scratchpads come to lie.
void Bundles::leave_values_behind() {
  const auto memory = allocator_->allocate(kScratchpads, tensor_memory());
  const auto part = part_of(memory, 0, kFirstScratchpad);
  stream_->fillAsync(&part, 9, DataFormats::SEN169_FP16, true);
  stream_->synchronize();
}

}  // namespace flex_test
