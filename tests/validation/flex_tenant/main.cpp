// SPDX-License-Identifier: Apache-2.0
// spyre-flex-tenant: a program of torch-spyre's runtime interface, for the scenarios in which what is below that fails
// (F42 to F44, F48 to F50). It knows libflex and nothing else of this project. Its device is what FLEX_DEVICE and its
// kin say, its programs are SpyreCode directories in the folder of its argument.
//
// Each line of stdin is a command, and is answered by one line: "ok …", "runtime_error TEXT" for an exception of just
// that type, "other TEXT" for any other. It ends with its input.
//
//   open            a runtime, its default stream, and another stream
//   close           lets the runtime go
//   launch NAME     the program in that directory, on the default stream; prepared by the first launch of the runtime
//   synchronize     the default stream
//   work, work-other   bytes to the card and back on the default, or the other stream: "ok right", "ok wrong"
//   fill T V        the tensor T, which is made when there is none, gets the value V
//   holds T V       "ok right", "ok wrong: …": whether it has this value everywhere; read on the other stream
//   prepare P       the plan of a bundle in the directory P, anew
//   bundle P T…, bundle-other P T…   launches it with these tensors on the default, or the other stream
//   overwrite P Q   sends the binary of Q to the program memory of P
//   leave-values    values in memory that is freed, where the scratchpads of programs come to lie
//   state           "ok error E failed F other O idle I": hasStreamError(), needsShutdown() of both streams, query()
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <exception>
#include <flex/flex.hpp>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "tests/support/flex/launches.hpp"
#include "tests/support/flex/prepared_plan.hpp"
#include "tests/validation/flex_tenant/bundles.hpp"

namespace {

using flex_test::PreparedPlan;

class Tenant {
 public:
  explicit Tenant(const std::string& plans) : plans_(plans), bundles_(plans) {}

  std::string answer(const std::string& command) {
    if (command == "open") return open();
    if (command == "close") return close();
    if (runtime_ == nullptr) throw std::logic_error("there is no runtime: open one");
    if (command == "synchronize") return stream_->synchronize(), "";
    if (command == "work") return work(*stream_);
    if (command == "work-other") return work(*other_);
    if (command == "state") return state();
    if (command.starts_with(kLaunch)) return launch(command.substr(kLaunch.size()));
    if (const auto of_bundles = bundles_.answer(words_of(command))) return *of_bundles;
    throw std::logic_error("there is no such command");
  }

 private:
  static constexpr std::string_view kLaunch = "launch ";
  static constexpr std::size_t kOperandBytes = 64 * 128;
  static constexpr std::size_t kWorkBytes = std::size_t{1} << 20;

  static std::vector<std::string> words_of(const std::string& command) {
    std::istringstream in(command);
    std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    if (words.empty()) words.emplace_back();
    return words;
  }
  std::string open() {
    flex::initializeRuntime(&runtime_, 0);
    stream_ = runtime_->getDefaultStream();
    other_ = runtime_->createStream(flex::RuntimeStreamPriority::HIGH);
    operand_ = runtime_->getAllocator()->allocate(kOperandBytes, flex_test::tensor_memory());
    bundles_.open(*runtime_, *stream_, *other_);
    return "";
  }
  std::string close() {
    prepared_.clear();
    bundles_.close();
    operand_ = {};
    runtime_.reset();
    return "";
  }
  std::string launch(const std::string& name) {
    auto known = prepared_.find(name);
    if (known == prepared_.end()) {
      known =
          prepared_
              .emplace(name, std::make_unique<PreparedPlan>(plans_ + "/" + name, *runtime_->getAllocator(), *stream_))
              .first;
      stream_->synchronize();
    }
    known->second->launch(*stream_, name == "spin" ? PreparedPlan::Tensors{} : PreparedPlan::Tensors{&operand_},
                          PreparedPlan::Addresses::Bound);
    return "";
  }
  std::string work(flex::RuntimeStream& stream) {
    const auto memory = runtime_->getAllocator()->allocate(kWorkBytes, flex_test::tensor_memory());
    const auto bytes = flex_test::counted_bytes(kWorkBytes, ++rounds_);
    std::vector<std::uint8_t> back(kWorkBytes);
    flex_test::send(stream, bytes.data(), bytes.size(), memory);
    flex_test::receive(stream, back.data(), back.size(), memory);
    stream.synchronize();
    return back == bytes ? "right" : "wrong";
  }
  // query() last: it throws nothing for a stream that failed, and need not be asked before.
  std::string state() {
    const auto digit = [](bool value) { return value ? "1" : "0"; };
    std::string text = std::string("error ") + digit(runtime_->hasStreamError());
    text += std::string(" failed ") + digit(stream_->needsShutdown());
    text += std::string(" other ") + digit(other_->needsShutdown());
    return text + " idle " + digit(stream_->query());
  }

  std::string plans_;
  unsigned rounds_ = 0;
  std::shared_ptr<flex::RuntimeContext> runtime_;
  flex::RuntimeStream* stream_ = nullptr;
  flex::RuntimeStream* other_ = nullptr;
  flex::CompositeAddress operand_;
  std::map<std::string, std::unique_ptr<PreparedPlan>> prepared_;
  flex_test::Bundles bundles_;
};

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string answer(Tenant& tenant, const std::string& command) {
  try {
    return "ok " + tenant.answer(command);
  } catch (const std::exception& error) {
    const bool as_documented = typeid(error) == typeid(std::runtime_error);
    return (as_documented ? "runtime_error " : "other ") + one_line(error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "spyre-flex-tenant FOLDER: part of spyre fault campaign\n";
    return 2;
  }
  // An interrupt at the terminal is the campaign's, which ends its tenants itself.
  std::signal(SIGINT, SIG_IGN);
  Tenant tenant(argv[1]);
  std::string command;
  // bounded: by the campaign
  while (std::getline(std::cin, command)) std::cout << answer(tenant, command) << "\n" << std::flush;
  return 0;
}
