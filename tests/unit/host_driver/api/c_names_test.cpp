// SPDX-License-Identifier: Apache-2.0
#include "host_driver/api/c_names.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace spyre {
namespace {

TEST(CNames, EveryCallIsReplacedAndNothingElse) {
  EXPECT_EQ(with_c_names("call BeginCapture() first"), "call spyre_stream_begin_capture() first");
  EXPECT_EQ(with_c_names("Context::recover(), or recover()"), "spyre_context_recover(), or spyre_context_recover()");
  EXPECT_EQ(with_c_names("Reset() the stream, Reset() again"),
            "spyre_stream_reset() the stream, spyre_stream_reset() again");
  EXPECT_EQ(with_c_names("give float16; copy() with Options::out converts on the card"),
            "give float16; the operation copy of spyre_run_operation() with out converts on the card");
  EXPECT_EQ(with_c_names("let the card convert: ops::copy() with Options::out of a type"),
            "let the card convert: the operation copy of spyre_run_operation() with out of a type");
  EXPECT_EQ(with_c_names("give bool: ops::copy() with out converts on the card"),
            "give bool: the operation copy of spyre_run_operation() with out converts on the card");
  EXPECT_EQ(with_c_names("larger ones hold more (MemoryOptions::region_bytes, max_regions)"),
            "larger ones hold more (a program in C++ has options for it)");
  EXPECT_EQ(with_c_names("load one (Kernel::load)"), "load one (spyre_kernel_find())");
  EXPECT_EQ(with_c_names("ops::operations() lists them"), "spyre_operation_name() lists them");
  EXPECT_EQ(with_c_names("the QueueReset() of a test"), "the QueueReset() of a test");
  EXPECT_EQ(with_c_names(""), "");
  EXPECT_EQ(with_c_names("spyre_synchronize()"), "spyre_synchronize()");
}

// The string literals of a source.
std::vector<std::string> literals_of(const std::string& text) {
  std::vector<std::string> literals;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (inside && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"' || text[i] == '\n') {
      if (!inside && text[i] == '"') literals.emplace_back();
      inside = !inside && text[i] == '"';
    } else if (inside) {
      literals.back() += text[i];
    }
  }
  return literals;
}

bool part_of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The names of the interface in a text: "name()" of a call, and every name with a scope, "Scope::member".
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (!part_of_a_name(text[begin])) continue;
    std::size_t end = begin;
    bool scoped = false;
    while (end < text.size() && part_of_a_name(text[end])) {
      ++end;
      if (end + 2 >= text.size() || text.compare(end, 2, "::") != 0 || !part_of_a_name(text[end + 2])) continue;
      scoped = true;
      end += 2;
    }
    const bool call = text.compare(end, 2, "()") == 0;
    if (call || scoped) names.push_back(text.substr(begin, end - begin) + (call ? "()" : ""));
    begin = end;
  }
  return names;
}

TEST(CNames, OfATextAreItsCallsAndWhatHasAScope) {
  EXPECT_EQ(names_in("call a::Name(), then it() or b_c::d::e: see (F::g, h): i"),
            (std::vector<std::string>{"a::Name()", "it()", "b_c::d::e", "F::g"}));
  EXPECT_EQ(names_in("end::"), std::vector<std::string>{});
}

// Texts of the layers that a call of the C interface goes through.
TEST(CNames, NoTextOfTheDriverNamesWhatCHasNot) {
  // Of arguments that a program in C cannot give.
  const std::set<std::string> of_cpp{"aligned_alloc()",
                                     "allocate()",
                                     "host_memory()",
                                     "lock()",
                                     "release()",
                                     "unlock()",
                                     "to_raw()",
                                     "spyre::Job",
                                     "SpyreTensorLayout::to_json()",
                                     "split_at_chunks()",
                                     "SpyreTensorLayout::of"};
  // Of no interface: what a host function threw, kernels' symbols, and names of edges of a state machine.
  const std::set<std::string> of_no_interface{"std::exception", "kernel::compute", "wire::KernelArguments",
                                              "RecoveryPolicy::Recover"};
  std::size_t seen = 0;
  for (const char* layer : {"api", "device", "frontend", "memory", "ops", "program", "recovery", "runtime", "tensor"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(SPYRE_SOURCES "/") + layer)) {
      const std::filesystem::path& path = entry.path();
      if (path.filename() == "c_names.cpp" || (path.extension() != ".cpp" && path.extension() != ".hpp")) continue;
      std::ifstream file(path);
      for (const std::string& text : literals_of({std::istreambuf_iterator<char>(file), {}})) {
        for (const std::string& name : names_in(with_c_names(text))) {
          ++seen;
          EXPECT_TRUE(name.starts_with("spyre_") || of_cpp.contains(name) || of_no_interface.contains(name))
              << path << ": " << name << " in " << text;
        }
      }
    }
  }
  EXPECT_GT(seen, 20U) << "the texts are elsewhere";
}

}  // namespace
}  // namespace spyre
