/** Lets Node.js run the TypeScript as it is: a file is imported by the name that it has once it is compiled. */
import { registerHooks } from "node:module";

registerHooks({ resolve: (name, context, next) => next(name.startsWith(".") ? name.replace(/\.js$/, ".ts") : name, context) });
