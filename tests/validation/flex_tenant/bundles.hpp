// SPDX-License-Identifier: Apache-2.0
// Bundles that the compiler has made plans of, as the program launches them, and the tensors that they take. Nothing
// but libflex.
#pragma once

#include <flex/flex.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/flex/prepared_plan.hpp"

namespace flex_test {

class Bundles {
 public:
  // `plans`: a folder of SpyreCode directories.
  explicit Bundles(std::string plans) : plans_(std::move(plans)) {}

  // What follows is of this runtime. Launches go to `stream`, or to `other`, on which tensors are read.
  void open(flex::RuntimeContext& runtime, flex::RuntimeStream& stream, flex::RuntimeStream& other);
  // Everything of the runtime is given back.
  void close();
  // Carries out a command of main.cpp; nothing: it is none of bundles.
  std::optional<std::string> answer(const std::vector<std::string>& words);

 private:
  using Names = std::vector<std::string>;

  void fill(const std::string& tensor, double value);
  std::string holds(const std::string& tensor, float value);
  PreparedPlan& prepare(const std::string& plan);
  void launch(flex::RuntimeStream& stream, const std::string& plan, const Names& tensors);
  void overwrite(const std::string& plan, const std::string& by);
  void leave_values_behind();

  std::string plans_;
  flex::FlexAllocator* allocator_ = nullptr;
  flex::RuntimeStream* stream_ = nullptr;
  flex::RuntimeStream* other_ = nullptr;
  std::map<std::string, flex::CompositeAddress> tensors_;
  std::map<std::string, std::unique_ptr<PreparedPlan>> prepared_;
};

}  // namespace flex_test
