// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/bundle_text.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "host_driver/compiler/bundle_tokens.hpp"

namespace svp::compiler {

namespace {

using Kind = Token::Kind;

constexpr std::uint64_t kMostPoolBytes = std::uint64_t{1} << 40;
constexpr std::size_t kMostShownBounds = 80;
constexpr std::size_t kMostMapNames = 32;

// #map_0 = affine_map<(d0, d1)[s0] -> (s0 + 128*d0 + 4096*d1)>.
struct AffineMap {
  std::size_t dimensions = 0;
  std::size_t symbols = 0;
  std::vector<std::int64_t> factors;  // of the dimensions, then of the symbols
  std::int64_t constant = 0;
};

// A parameter before sdscbundle.input_arg_extract has taken its value.
struct Argument {
  std::uint32_t number = 0;
};
using Value = std::variant<SymbolicAddress, Argument>;

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(text, kBundleFileName) {}

  BundleText parse() {
    while (tokens_.next().kind == Kind::Map) parse_map();
    tokens_.expect("module");
    tokens_.expect("{");
    parse_function();
    tokens_.expect("}");
    if (tokens_.next().kind != Kind::End) tokens_.refuse_next("the end of the file");
    return std::move(bundle_);
  }

 private:
  // ---- maps
  void parse_map();
  void names_in(const char* open, const char* close, std::vector<std::string_view>& names);
  void parse_term(AffineMap& map, const std::vector<std::string_view>& names);
  // ---- the function
  void parse_function();
  void parse_parameter();
  void parse_type(const Token& of);
  void parse_statements(std::vector<Statement>& body);
  void parse_definition(const Token& name);
  SymbolicAddress parse_sum();
  SymbolicAddress parse_apply();
  SymbolicAddress parse_extract();
  std::uint64_t parse_pool();
  Statement parse_loop();
  Statement parse_execution();
  void parse_attribute(Execution& execution, std::optional<std::vector<std::int64_t>>& ids);
  std::vector<std::int64_t> parse_ids();
  // ---- names
  void define(const Token& name, Value value);
  SymbolicAddress use(const Token& name) const;
  SymbolicAddress use_next() { return use(tokens_.expect(Kind::Value, "a value (%name)")); }
  std::int64_t number_of(const Token& name, const char* what) const;
  template <typename Result>
  Result or_refuse(std::optional<Result> result, unsigned line) const {
    if (!result) refuse(tokens_.place(line), "an address with two bases, or one that does not fit 64 bits");
    return *std::move(result);
  }

  Tokens tokens_;
  std::map<std::string, AffineMap, std::less<>> maps_;
  using Values = std::map<std::string, Value, std::less<>>;
  Values values_;
  std::vector<Values::iterator> defined_;  // in order; those of loops that have ended are gone
  unsigned loops_ = 0;                     // around the statement that is read
  bool has_pool_ = false;
  std::uint32_t executions_ = 0;
  BundleText bundle_;
};

// ---- maps -----------------------------------------------------------------------------------------------------------

void Parser::names_in(const char* open, const char* close, std::vector<std::string_view>& names) {
  if (!tokens_.take_if(open)) return;
  for (bool first = true; !tokens_.take_if(close); first = false) {
    if (!first) tokens_.expect(",");
    const Token name = tokens_.expect(Kind::Word, "a name of the map");
    if (std::ranges::find(names, name.text) != names.end()) {
      refuse(tokens_.place(name.line), shown(name) + " is a name of this map twice");
    }
    if (names.size() == kMostMapNames) {
      refuse(tokens_.place(name.line), "a map of more than " + std::to_string(kMostMapNames) + " names");
    }
    names.push_back(name.text);
  }
}

// INT, name, INT*name or name*INT.
void Parser::parse_term(AffineMap& map, const std::vector<std::string_view>& names) {
  std::optional<std::int64_t> factor;
  std::optional<std::size_t> name;
  const unsigned line = tokens_.next().line;
  do {
    if (!factor && tokens_.next().kind == Kind::Number) {
      factor = tokens_.take().number;
      continue;
    }
    if (name) tokens_.refuse_next("a number");
    const Token used = tokens_.expect(Kind::Word, "a number or a name of the map");
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == used.text) name = i;
    }
    if (!name) refuse(tokens_.place(used.line), shown(used) + " is no name of this map");
  } while (tokens_.take_if("*"));
  std::int64_t& total = name ? map.factors[*name] : map.constant;
  if (__builtin_add_overflow(total, factor.value_or(1), &total)) {
    refuse(tokens_.place(line), "a factor of the map does not fit 64 bits");
  }
}

void Parser::parse_map() {
  const Token name = tokens_.take();
  tokens_.expect("=");
  tokens_.expect("affine_map");
  tokens_.expect("<");
  AffineMap map;
  std::vector<std::string_view> names;
  names_in("(", ")", names);
  map.dimensions = names.size();
  names_in("[", "]", names);
  map.symbols = names.size() - map.dimensions;
  map.factors.resize(names.size());
  tokens_.expect("->");
  tokens_.expect("(");
  do {
    parse_term(map, names);
  } while (tokens_.take_if("+"));
  tokens_.expect(")");
  tokens_.expect(">");
  if (!maps_.emplace(name.text, std::move(map)).second) {
    refuse(tokens_.place(name.line), shown(name) + " is defined a second time");
  }
}

// ---- names ----------------------------------------------------------------------------------------------------------

void Parser::define(const Token& name, Value value) {
  const auto [place, defined] = values_.emplace(name.text, std::move(value));
  if (!defined) refuse(tokens_.place(name.line), shown(name) + " is defined a second time");
  defined_.push_back(place);
}

SymbolicAddress Parser::use(const Token& name) const {
  const auto found = values_.find(name.text);
  if (found == values_.end()) {
    refuse(tokens_.place(name.line), shown(name) + " is used, and nothing defines it before");
  }
  if (const auto* address = std::get_if<SymbolicAddress>(&found->second)) return *address;
  refuse(tokens_.place(name.line), shown(name) + " is used before sdscbundle.input_arg_extract has taken its value");
}

std::int64_t Parser::number_of(const Token& name, const char* what) const {
  const SymbolicAddress value = use(name);
  if (value.is_number()) return value.offset;
  refuse(tokens_.place(name.line), std::string(what) + " is " + shown(name) + ", which is no constant");
}

// ---- the function ---------------------------------------------------------------------------------------------------

// index, !sdscbundle.input_arg<index>, or the type of a size: !sdscbundle.input_arg<index, granularity=64,
// max_value=512>.
void Parser::parse_type(const Token& of) {
  if (tokens_.take_if("index")) return;
  const Token type = tokens_.expect(Kind::Type, "a type");
  if (type.text != "!sdscbundle.input_arg") refuse(tokens_.place(type.line), "type " + shown(type) + " is not known");
  tokens_.expect("<");
  tokens_.expect("index");
  if (!tokens_.take_if(",")) return tokens_.expect(">");
  std::string bounds;
  while (!tokens_.take_if(">")) {
    if (tokens_.next().kind == Kind::End) tokens_.refuse_next("'>'");
    const Token bound = tokens_.take();
    if (bounds.size() < kMostShownBounds) bounds += bound.text == "," ? ", " : std::string(bound.text);
  }
  if (!bundle_.dynamic_size) bundle_.dynamic_size = {std::string(of.text), bounds, of.line};
}

void Parser::parse_parameter() {
  const Token name = tokens_.expect(Kind::Value, "a parameter (%name)");
  tokens_.expect(":");
  parse_type(name);
  if (bundle_.parameters.size() == kMostParameters) {
    refuse(tokens_.place(name.line), "more than " + std::to_string(kMostParameters) + " parameters");
  }
  define(name, Argument{static_cast<std::uint32_t>(bundle_.parameters.size())});
  bundle_.parameters.emplace_back(name.text);
}

void Parser::parse_function() {
  tokens_.expect("func.func");
  const Token name = tokens_.expect(Kind::Symbol, "@sdsc_bundle");
  if (name.text != "@sdsc_bundle") refuse(tokens_.place(name.line), "the function is " + shown(name));
  tokens_.expect("(");
  while (!tokens_.take_if(")")) {
    if (!bundle_.parameters.empty()) tokens_.expect(",");
    parse_parameter();
  }
  tokens_.expect("{");
  parse_statements(bundle_.body);
  tokens_.expect("return");
  tokens_.expect("}");
}

void Parser::parse_statements(std::vector<Statement>& body) {
  for (;;) {  // bounded: by the text
    const Token& next = tokens_.next();
    if (next.kind == Kind::Value) {
      parse_definition(tokens_.take());
    } else if (next.kind == Kind::Word && next.text == "scf.for") {
      body.push_back(parse_loop());
    } else if (next.kind == Kind::Word && next.text == "sdscbundle.sdsc_execute") {
      body.push_back(parse_execution());
    } else if (next.text == "}" || next.text == "return") {
      return;
    } else {
      tokens_.refuse_next("a statement of a bundle");
    }
  }
}

// %name = …
void Parser::parse_definition(const Token& name) {
  tokens_.expect("=");
  const Token operation = tokens_.expect(Kind::Word, "an operation");
  if (operation.text == "arith.constant") {
    const std::int64_t number = tokens_.expect(Kind::Number, "a number").number;
    define(name, SymbolicAddress{.offset = number, .loops = {}});
  } else if (operation.text == "arith.addi") {
    define(name, parse_sum());
  } else if (operation.text == "affine.apply") {
    return define(name, parse_apply());  // without a type
  } else if (operation.text == "sdscbundle.input_arg_extract") {
    define(name, parse_extract());
  } else if (operation.text == "sdscbundle.device_mem_allocate") {
    bundle_.pool_bytes = parse_pool();
    define(name, SymbolicAddress{.base = SymbolicAddress::Base::Pool, .loops = {}});
  } else {
    refuse(tokens_.place(operation.line), "operation " + shown(operation) + " is not known");
  }
  tokens_.expect(":");
  parse_type(name);
  if (tokens_.take_if("->")) parse_type(name);
}

SymbolicAddress Parser::parse_sum() {
  const unsigned line = tokens_.next().line;
  const SymbolicAddress a = use_next();
  tokens_.expect(",");
  return or_refuse(sum(a, use_next()), line);
}

// affine.apply #map(%d0, %d1)[%s0].
SymbolicAddress Parser::parse_apply() {
  const Token name = tokens_.expect(Kind::Map, "a map (#name)");
  const auto found = maps_.find(name.text);
  if (found == maps_.end()) refuse(tokens_.place(name.line), shown(name) + " is used, and nothing defines it before");
  const AffineMap& map = found->second;
  SymbolicAddress result{.offset = map.constant, .loops = {}};
  std::size_t operand = 0;
  const auto take = [&](const char* open, const char* close, std::size_t count) {
    if (count == 0 && tokens_.next().text != open) return;
    tokens_.expect(open);
    for (std::size_t i = 0; i < count; ++i, ++operand) {
      if (i != 0) tokens_.expect(",");
      const Token used = tokens_.expect(Kind::Value, "a value (%name)");
      const std::int64_t factor = map.factors[operand];
      const SymbolicAddress value = use(used);
      const bool whole = factor == 1;
      result = or_refuse(sum(result, whole ? value : or_refuse(product(value, factor), used.line)), used.line);
    }
    tokens_.expect(close);
  };
  take("(", ")", map.dimensions);
  take("[", "]", map.symbols);
  return result;
}

// value from %parameter.
SymbolicAddress Parser::parse_extract() {
  tokens_.expect("value");
  tokens_.expect("from");
  const Token name = tokens_.expect(Kind::Value, "a parameter (%name)");
  const auto found = values_.find(name.text);
  const auto* argument = found == values_.end() ? nullptr : std::get_if<Argument>(&found->second);
  if (argument == nullptr) refuse(tokens_.place(name.line), shown(name) + " is no parameter of the function");
  return {.base = SymbolicAddress::Base::Argument, .argument = argument->number, .loops = {}};
}

// N bytes.
std::uint64_t Parser::parse_pool() {
  const Token bytes = tokens_.expect(Kind::Number, "a number of bytes");
  if (has_pool_) refuse(tokens_.place(bytes.line), "a second sdscbundle.device_mem_allocate");
  has_pool_ = true;
  if (bytes.number < 0 || static_cast<std::uint64_t>(bytes.number) > kMostPoolBytes) {
    refuse(tokens_.place(bytes.line), "a pool of " + shown(bytes) + " bytes");
  }
  tokens_.expect("bytes");
  return static_cast<std::uint64_t>(bytes.number);
}

// scf.for %i = %c0 to %bound step %c1 { … }
Statement Parser::parse_loop() {
  const unsigned line = tokens_.take().line;
  if (loops_ == kMostNestedLoops) {
    refuse(tokens_.place(line), "more than " + std::to_string(kMostNestedLoops) + " loops in each other");
  }
  const Token variable = tokens_.expect(Kind::Value, "a loop variable (%name)");
  tokens_.expect("=");
  const Token from = tokens_.expect(Kind::Value, "a value (%name)");
  tokens_.expect("to");
  const Token bound = tokens_.expect(Kind::Value, "a value (%name)");
  tokens_.expect("step");
  const Token step = tokens_.expect(Kind::Value, "a value (%name)");
  if (number_of(from, "the loop's begin") != 0) refuse(tokens_.place(line), "a loop that does not begin at 0");
  if (number_of(step, "the loop's step") != 1) refuse(tokens_.place(line), "a loop whose step is not 1");
  const std::int64_t count = number_of(bound, "the loop's bound");
  if (count < 1 || count > std::numeric_limits<std::uint32_t>::max()) {
    refuse(tokens_.place(line), "a loop of " + std::to_string(count) + " iterations");
  }
  Loop loop{.count = static_cast<std::uint32_t>(count), .body = {}, .line = line};
  tokens_.expect("{");
  const std::size_t before = defined_.size();
  define(variable, SymbolicAddress{.loops = {{loops_, 1}}});
  ++loops_;
  parse_statements(loop.body);
  --loops_;
  for (; defined_.size() > before; defined_.pop_back()) values_.erase(defined_.back());  // names of the body
  tokens_.expect("}");
  return {std::move(loop)};
}

std::vector<std::int64_t> Parser::parse_ids() {
  std::vector<std::int64_t> ids;
  tokens_.expect("[");
  while (!tokens_.take_if("]")) {
    if (!ids.empty()) tokens_.expect(",");
    ids.push_back(tokens_.expect(Kind::Number, "a symbol id").number);
  }
  return ids;
}

// sdsc_filename = "…", or symbol_ids = […]; the name perhaps in quotes.
void Parser::parse_attribute(Execution& execution, std::optional<std::vector<std::int64_t>>& ids) {
  const Token name = tokens_.next().kind == Kind::Text ? tokens_.take() : tokens_.expect(Kind::Word, "an attribute");
  tokens_.expect("=");
  if (name.text == "sdsc_filename" && execution.sdsc_file.empty()) {
    const Token file = tokens_.expect(Kind::Text, "the name of a file in quotes");
    const bool plain = !file.text.empty() && !file.text.contains('/') && file.text != "." && file.text != "..";
    if (!plain) refuse(tokens_.place(file.line), shown(file) + " is no plain name of a file");
    execution.sdsc_file = file.text;
  } else if (name.text == "symbol_ids" && !ids) {
    ids = parse_ids();
  } else {
    refuse(tokens_.place(name.line), "attribute " + shown(name) + " is not known, or stands twice");
  }
}

// sdscbundle.sdsc_execute (%a, %b) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}
Statement Parser::parse_execution() {
  Execution execution;
  execution.line = tokens_.take().line;
  std::vector<SymbolicAddress> operands;
  tokens_.expect("(");
  while (!tokens_.take_if(")")) {
    if (!operands.empty()) tokens_.expect(",");
    operands.push_back(use_next());
  }
  std::optional<std::vector<std::int64_t>> ids;
  tokens_.expect("{");
  do {
    parse_attribute(execution, ids);
  } while (tokens_.take_if(","));
  tokens_.expect("}");
  const SourcePlace place = tokens_.place(execution.line);
  if (++executions_ > kMostExecutions) refuse(place, "more than " + std::to_string(kMostExecutions) + " executions");
  if (execution.sdsc_file.empty()) refuse(place, "no sdsc_filename");
  if (!ids || ids->size() != operands.size()) {
    refuse(place,
           std::to_string(operands.size()) + " values and " + std::to_string(ids ? ids->size() : 0) + " symbol_ids");
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    execution.bindings.push_back({(*ids)[i], std::move(operands[i])});
  }
  std::ranges::sort(execution.bindings, std::ranges::greater{}, &Execution::Binding::id);
  return {std::move(execution)};
}

}  // namespace

BundleText parse_bundle_text(std::string_view text) {
  if (text.size() > kMostBundleBytes) {
    refuse({.file = kBundleFileName, .line = 0, .path = {}},
           "has " + std::to_string(text.size()) + " bytes, more than " + std::to_string(kMostBundleBytes));
  }
  return Parser(text).parse();
}

}  // namespace svp::compiler
