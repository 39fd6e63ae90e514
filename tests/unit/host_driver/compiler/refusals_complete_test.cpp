// SPDX-License-Identifier: Apache-2.0
// The catalogue is complete: each place in the compiler's sources that makes a refusal has a row whose bundle brings
// its message, or stands below with the reason why no bundle does.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string_view>

#include "tests/unit/host_driver/compiler/refusals.hpp"

namespace refusals {

namespace {

namespace fs = std::filesystem;

const fs::path kCompiler = fs::path(SPYRE_SOURCE_DIR) / "host_driver/compiler";

struct Unreachable {
  std::string file;
  std::string text;  // of the message
  std::string reason;
};
const Unreachable kUnreachable[] = {
    {"lowering_operations.cpp", "operation ",
     "every operation that op_func.cpp names has a case; for one that is added"},
    {"tensor_program.cpp", "an operation over more than 8 dimensions",
     "ExecutionLowering refuses more than 8 dimensions before, and nothing adds one to 8"},
    {"tensor_program.cpp", "an operation of more than 6 tensors",
     "each operation checks the number of its inputs, and layernormnorm has the most, 5 and an output"},
};

// A place that makes a refusal: the texts of its message, in order; what stands between them is computed.
struct Site {
  std::string file;
  std::size_t line;
  std::vector<std::string> texts;
  std::string shown() const {
    std::string text = file + ":" + std::to_string(line) + ": ";
    for (const std::string& part : texts) text += part + "…";
    return text;
  }
};

// Behind the end of a literal that begins at `at`.
std::size_t end_of_literal(const std::string& text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

// Behind the bracket that closes the one at `at`.
std::size_t end_of_call(const std::string& text, std::size_t at) {
  unsigned depth = 0;
  while (at < text.size()) {
    if (text[at] == '"') {
      at = end_of_literal(text, at);
      continue;
    }
    if (text[at] == '(' || text[at] == '{' || text[at] == '[') ++depth;
    if ((text[at] == ')' || text[at] == '}' || text[at] == ']') && --depth == 0) return at + 1;
    ++at;
  }
  return at;
}

// Literals of the arguments that are in every message: not of an alternative (a ? "b" : "c"), not of a path.
std::vector<std::string> texts_of(const std::string& arguments, bool key_first) {
  std::vector<std::string> texts;
  std::size_t before = 0;
  bool joins = false;
  for (std::size_t at = arguments.find('"'); at < arguments.size(); at = arguments.find('"', before)) {
    const std::size_t end = end_of_literal(arguments, at);
    const std::string literal = arguments.substr(at + 1, end - at - 2);
    std::string between = arguments.substr(before, at - before);
    std::erase_if(between, [](char c) { return c == ' ' || c == '\n'; });
    const bool first = before == 0;
    before = end;
    const bool key = key_first && first && between.empty();
    const bool computed = between.ends_with('?') || between.ends_with(':') || between.ends_with("path_of(");
    if (key || computed || literal.empty()) {
      joins = false;
    } else if (joins && between.empty()) {
      texts.back() += literal;
    } else {
      texts.push_back(literal);
      joins = true;
    }
  }
  return texts;
}

std::vector<Site> sites_of(const std::string& file, const std::string& text) {
  static const std::regex kCall(
      R"((\.)?\b(refuse|refuse_here|refuse_next|refuse_lengths|refuse_call)\(|\bBadMember\{|\bMessage\{|\bexpect\(Kind::)");
  std::vector<Site> sites;
  for (std::sregex_iterator at(text.begin(), text.end(), kCall), end; at != end; ++at) {
    const auto begin = static_cast<std::size_t>(at->position());
    const std::size_t bracket = text.find_first_of("({", begin);
    const std::string arguments = text.substr(bracket + 1, end_of_call(text, bracket) - bracket - 2);
    const bool of_object = (*at)[1].matched && (*at)[2] == "refuse";
    Site site{.file = file, .line = 0, .texts = texts_of(arguments, of_object)};
    site.line = static_cast<std::size_t>(1 + std::count(text.begin(), text.begin() + at->position(), '\n'));
    if (!site.texts.empty()) sites.push_back(std::move(site));  // without a text: it passes one on
  }
  return sites;
}

std::vector<Site> all_sites() {
  std::vector<Site> sites;
  for (const auto& entry : fs::directory_iterator(kCompiler)) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream in(entry.path());
    for (Site& site : sites_of(entry.path().filename(), {std::istreambuf_iterator<char>(in), {}})) {
      sites.push_back(std::move(site));
    }
  }
  return sites;
}

bool matches(const Site& site, std::string_view message) {
  std::size_t at = 0;
  for (const std::string& text : site.texts) {
    at = message.find(text, at);
    if (at == std::string_view::npos) return false;
    at += text.size();
  }
  return true;
}

const Unreachable* reason_of(const Site& site) {
  const auto* const found = std::ranges::find_if(
      kUnreachable, [&](const Unreachable& u) { return u.file == site.file && u.text == site.texts[0]; });
  return found == std::end(kUnreachable) ? nullptr : found;
}

std::vector<std::string> all_messages() {
  std::vector<std::string> messages;
  for (auto* const rows : {text_rows, command_rows, file_rows, sdsc_rows, lowering_rows, window_rows, program_rows}) {
    for (const Row& row : rows()) messages.push_back(said(row));
  }
  return messages;
}

TEST(Refusals, EachPlaceThatMakesOneHasARow) {
  const std::vector<Site> sites = all_sites();
  ASSERT_GT(sites.size(), 150u) << "this test has lost its way to find refusals";
  const std::vector<std::string> messages = all_messages();
  std::map<std::vector<std::string>, std::vector<const Site*>> same;  // places with the same texts
  for (const Site& site : sites) {
    if (reason_of(site) == nullptr) same[site.texts].push_back(&site);
  }
  for (const auto& [texts, places] : same) {
    const auto rows = static_cast<std::size_t>(
        std::ranges::count_if(messages, [&](const std::string& m) { return matches(*places[0], m); }));
    if (rows >= places.size()) continue;
    std::string shown;
    for (const Site* site : places) shown += "\n  " + site->shown();
    ADD_FAILURE() << rows << " rows of the catalogue bring the message of these places:" << shown
                  << "\nAdd a row for each to refusals_*_test.cpp: a bundle that is refused there. When no bundle can "
                     "be, remove the refusal, or name it in kUnreachable with the reason.";
  }
}

TEST(Refusals, WhatNoBundleReachesIsStillThere) {
  const std::vector<Site> sites = all_sites();
  for (const Unreachable& unreachable : kUnreachable) {
    EXPECT_EQ(std::ranges::count_if(sites, [&](const Site& site) { return reason_of(site) == &unreachable; }), 1)
        << unreachable.file << ": " << unreachable.text << ": remove it from kUnreachable";
    EXPECT_GT(unreachable.reason.size(), 20u);
  }
}

TEST(Refusals, APlaceWithoutARowIsFound) {
  const std::string text =
      "object.refuse(\"key\", \"is \" + n + (n == 0 ? \"none\" : \"few\") + \", not \"\n  \"seven\");\n"
      "throw BadMember{object.path_of(\"x\"), \"is bad\"};\nrefuse(place, what);\n";
  const std::vector<Site> sites = sites_of("a.cpp", text);
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(sites[0].texts, (std::vector<std::string>{"is ", ", not seven"}));
  EXPECT_EQ(sites[1].texts, std::vector<std::string>{"is bad"});
  EXPECT_EQ(sites[1].line, 3u);
  EXPECT_TRUE(matches(sites[0], "key: is 3, not seven"));
  EXPECT_FALSE(matches(sites[0], "key: is 3, not six"));
}

}  // namespace

}  // namespace refusals
