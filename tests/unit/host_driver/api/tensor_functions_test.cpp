// SPDX-License-Identifier: Apache-2.0
// Every function of include/spyre that is given a tensor or an allocation has a row in the tables of
// tests/device/api/lost_tensors_test.cpp, which refuse those that a reset of the function took away. A new function
// without a row, and a row without a function, fail here.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

using Counts = std::map<std::string, unsigned>;  // declarations, or rows, of each name

const fs::path kRoot = SPYRE_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Without comments, literals and lines of the preprocessor.
std::string code_of(const std::string& text) {
  static const std::regex kNoCode(R"(//[^\n]*|/\*[\s\S]*?\*/|"(?:\\.|[^"\\\n])*")");
  static const std::regex kPreprocessor(R"((^|\n)[ \t]*#(?:\\\n|[^\n])*)");
  return std::regex_replace(std::regex_replace(text, kPreprocessor, "\n"), kNoCode, " ");
}

// What a function does not refuse, because it reads and changes nothing on the card.
const std::set<std::string>& without_use_of_the_memory() {
  static const std::set<std::string> kNames{
      // shape, types and place of a tensor
      "SpyreTensor::shape", "SpyreTensor::stride", "SpyreTensor::stride_bytes", "SpyreTensor::storage_offset",
      "SpyreTensor::element_count", "SpyreTensor::is_contiguous", "SpyreTensor::data_type", "SpyreTensor::layout",
      "SpyreTensor::allocation_index", "SpyreTensor::size_bytes", "DeviceStorage::allocation_index",
      "DeviceStorage::bytes", "to_string", "hash_value", "spyre_tensor_host_bytes", "spyre_tensor_shape",
      "spyre_tensor_type",
      // views, which move nothing
      "SpyreTensor::view", "SpyreTensor::reshape", "SpyreTensor::permute", "SpyreTensor::transpose",
      "SpyreTensor::slice", "SpyreTensor::narrow", "SpyreTensor::select", "SpyreTensor::squeeze",
      "SpyreTensor::unsqueeze", "SpyreTensor::expand", "SpyreTensor::as_strided", "SpyreTensor::reshape_alias",
      "SpyreTensor::with_layout", "spyre_tensor_as_strided",
      // another owner of the same memory
      "to_raw"};
  return kNames;
}

// The functions that a header declares and that are given a tensor or an allocation, as "Class::name", "ops::name" or
// "name". Scopes are followed by their braces; bodies of functions and initialisers are skipped.
class Declarations {
 public:
  Declarations(const std::string& code, Counts& found) : code_(code), found_(found) {
    while (at_ < code_.size()) step();
  }

 private:
  void step() {
    const char c = code_[at_];
    if (c == '(') {
      append_balanced('(', ')');
    } else if (c == ';') {
      declared();
      ++at_;
    } else if (c == '{') {
      open();
    } else if (c == '}') {
      if (!scopes_.empty()) scopes_.pop_back();
      statement_.clear();
      ++at_;
    } else {
      statement_ += c;
      ++at_;
    }
  }

  void open() {
    static const std::regex kNamespace(R"(\bnamespace\s+([\w:][\w:\s]*?)\s*$)");
    static const std::regex kClass(R"(\b(?:class|struct|union)\s+(?:SPYRE_API\s+)?(\w+)[^()]*$)");
    static const std::regex kClassWord(R"(\bclass\s[^()]*$)");
    static const std::regex kExternC(R"(\bextern\s*$)");
    std::smatch match;
    const bool external = std::regex_search(statement_, kExternC);
    if (external || std::regex_search(statement_, match, kNamespace) || std::regex_search(statement_, match, kClass)) {
      const bool is_class = !external && std::regex_search(statement_, kClassWord);
      scopes_.push_back({.name = external ? "" : match[1].str(), .hidden = is_class});
      statement_.clear();
      ++at_;
    } else {
      const bool function = statement_.find('(') != std::string::npos;
      if (function) declared();
      skip_balanced();
    }
  }

  void append_balanced(char begin, char end) {
    int depth = 0;
    for (; at_ < code_.size(); ++at_) {
      depth += code_[at_] == begin ? 1 : code_[at_] == end ? -1 : 0;
      statement_ += code_[at_];
      if (depth == 0) break;
    }
    ++at_;
  }
  void skip_balanced() {
    int depth = 0;
    for (; at_ < code_.size(); ++at_) {
      depth += code_[at_] == '{' ? 1 : code_[at_] == '}' ? -1 : 0;
      if (depth == 0) break;
    }
    ++at_;
  }

  // "public:" stands in front of the first declaration behind it.
  void note_access() {
    static const std::regex kAccess(R"(\b(public|private|protected)\s*:)");
    for (std::sregex_iterator access(statement_.begin(), statement_.end(), kAccess), end; access != end; ++access) {
      if (!scopes_.empty()) scopes_.back().hidden = (*access)[1] != "public";
    }
  }

  void declared() {
    static const std::regex kFunction(R"((\w+)\s*\()");
    static const std::regex kGiven(R"(\b(SpyreTensor|AllocationIndex|DeviceStorage)\b|\bconst\s+spyre_tensor\b)");
    note_access();
    const std::string statement = std::exchange(statement_, {});
    std::smatch match;
    if (!std::regex_search(statement, match, kFunction) || statement.find("operator") != std::string::npos) return;
    const std::string name = match[1];
    const std::string parameters = statement.substr(static_cast<std::size_t>(match.position()) + name.size());
    if (!scopes_.empty() && scopes_.back().hidden) return;
    const std::string scope = scopes_.empty() ? "" : scopes_.back().name;
    const bool of_a_tensor =
        (scope == "SpyreTensor" || scope == "DeviceStorage") && statement.find("static ") == std::string::npos;
    if (scope == "detail" || (of_a_tensor && name == scope)) return;  // no constructor takes one
    if (!of_a_tensor && !std::regex_search(parameters, kGiven)) return;
    const bool of_class = !scope.empty() && std::isupper(static_cast<unsigned char>(scope[0])) != 0;
    const bool operation = scope.ends_with("ops");
    ++found_[operation ? "ops::" + name : of_class ? scope + "::" + name : name];
  }

  const std::string& code_;
  Counts& found_;
  std::size_t at_ = 0;
  std::string statement_;
  struct Scope {
    std::string name;
    bool hidden = false;  // what follows is private
  };
  std::vector<Scope> scopes_;
};

Counts declared_functions() {
  Counts found;
  for (const auto& entry : fs::directory_iterator(kRoot / "include/spyre")) {
    const std::string code = code_of(text_of(entry.path()));
    (void)Declarations(code, found);
  }
  return found;
}

Counts rows_of_the_tables() {
  static const std::regex kRow(R"re(\n\s+\{"([\w:]+)",)re");
  const std::string text = text_of(kRoot / "tests/device/api/lost_tensors_test.cpp");
  Counts rows;
  for (std::sregex_iterator row(text.begin(), text.end(), kRow), end; row != end; ++row) ++rows[(*row)[1]];
  return rows;
}

TEST(TensorFunctions, EachHasARowInTheTablesOfLostTensors) {
  const Counts declared = declared_functions();
  EXPECT_GT(declared.size(), 90u) << "the declarations are elsewhere";
  Counts wanted;
  for (const auto& [name, count] : declared) {
    if (!without_use_of_the_memory().contains(name)) wanted[name] = count;
  }
  const Counts rows = rows_of_the_tables();
  for (const auto& [name, count] : wanted) {
    const auto found = rows.find(name);
    EXPECT_EQ(found != rows.end() ? found->second : 0, count) << "rows of " << name << ", one for each overload";
  }
  for (const auto& [name, count] : rows) EXPECT_TRUE(wanted.contains(name)) << name << " is declared nowhere";
}

TEST(TensorFunctions, NoneIsExcusedThatIsNotDeclared) {
  const Counts declared = declared_functions();
  for (const std::string& name : without_use_of_the_memory()) EXPECT_TRUE(declared.contains(name)) << name;
}

// The reader itself: overloads, bodies, default arguments, scopes, C.
TEST(TensorFunctions, AreReadFromDeclarations) {
  const std::string code = code_of(R"(
namespace spyre::inline v0 {
class SPYRE_API Context {
 public:
  void copy(const SpyreTensor& a, const Options& o = {});  // SpyreTensor& in a comment
  void copy(const HostTensor& a, const SpyreTensor& b) { if (a) { use(b); } }
  SpyreTensor empty(DataType type);

 private:
  void use(const SpyreTensor& a);
  int layout_{};
};
inline void free_one(AllocationIndex index) {}
}
namespace spyre::inline v0::ops {
namespace detail {
void hidden(SpyreTensor a);
}
SpyreTensor add(C& c, const SpyreTensor& a);
}
extern "C" {
int spyre_use(const spyre_tensor* tensor);
int spyre_make(spyre_tensor** tensor);
}
)");
  Counts found;
  (void)Declarations(code, found);
  EXPECT_EQ(found, (Counts{{"Context::copy", 2}, {"free_one", 1}, {"ops::add", 1}, {"spyre_use", 1}}));
}

}  // namespace
