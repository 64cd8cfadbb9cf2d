// Prints the names of the client's API as JSON.
import ts from "typescript";

const file = "src/index.ts";
const program = ts.createProgram([file], { strict: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext });
const checker = program.getTypeChecker();
const symbol = checker.getSymbolAtLocation(program.getSourceFile(file) as ts.Node) as ts.Symbol;
const exported = checker.getExportsOfModule(symbol).map((s) => (s.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(s) : s));

/** Returns the public members of an exported type. */
function members(type: string): string[] {
  const declared = checker.getDeclaredTypeOfSymbol(exported.find((s) => s.name === type) as ts.Symbol);
  return checker.getPropertiesOfType(declared)
    .filter((p) => /^[a-z]/.test(p.name) && !p.getJsDocTags().some((tag) => tag.name === "internal"))
    .map((p) => p.name);
}

console.log(JSON.stringify({
  methods: members("Client"),
  options: members("Options"),
  answer: members("Answer"),
  mirror: members("Mirror"),
  error: members("ApiError").filter((name) => !["name", "stack", "cause"].includes(name)), // members of every Error
  errors: exported.filter((s) => s.flags & ts.SymbolFlags.Class && !["Client", "Mirror"].includes(s.name)).map((s) => s.name),
  queries: Object.fromEntries(exported.filter((s) => s.name.endsWith("Query")).map((s) => [s.name.slice(0, -5).toLowerCase(), members(s.name)])),
}));
