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

// "a::Name()" for each call that a text names.
std::vector<std::string> calls_in(const std::string& text) {
  std::vector<std::string> calls;
  for (std::size_t at = text.find("()"); at != std::string::npos; at = text.find("()", at + 2)) {
    std::size_t begin = at;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '_' ||
                         text[begin - 1] == ':')) {
      --begin;
    }
    if (begin != at) calls.push_back(text.substr(begin, at + 2 - begin));
  }
  return calls;
}

// Texts of the layers that a call of the C interface goes through.
TEST(CNames, NoTextOfTheDriverNamesACallThatCHasNot) {
  // Of arguments that a program in C cannot give.
  const std::set<std::string> of_cpp{"aligned_alloc()",  "allocate()", "host_memory()", "lock()",
                                     "release()",        "unlock()",   "to_raw()",      "SpyreTensorLayout::to_json()",
                                     "split_at_chunks()"};
  std::size_t seen = 0;
  for (const char* layer : {"api", "device", "frontend", "memory", "ops", "program", "recovery", "runtime", "tensor"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(SPYRE_SOURCES "/") + layer)) {
      const std::filesystem::path& path = entry.path();
      if (path.filename() == "c_names.cpp" || (path.extension() != ".cpp" && path.extension() != ".hpp")) continue;
      std::ifstream file(path);
      for (const std::string& text : literals_of({std::istreambuf_iterator<char>(file), {}})) {
        for (const std::string& name : calls_in(with_c_names(text))) {
          ++seen;
          EXPECT_TRUE(name.starts_with("spyre_") || of_cpp.contains(name)) << path << ": " << name << " in " << text;
        }
      }
    }
  }
  EXPECT_GT(seen, 20U) << "the texts are elsewhere";
}

}  // namespace
}  // namespace spyre
