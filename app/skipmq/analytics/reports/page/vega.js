// Built into vega.min.js, whose licences are in vega.LICENSE, by
//   npm install vega@6.4.0 vega-interpreter@2.3.2 esbuild@0.28.2
//   npx esbuild vega.js --bundle --minify --format=iife --target=es2022 --outfile=vega.min.js
// It has the parts of Vega that the charts use, and the interpreter, which needs no eval.
import { transforms } from "vega-dataflow";
import * as encoders from "vega-encode";
import { expressionInterpreter } from "vega-interpreter";
import { parse } from "vega-parser";
import * as data from "vega-transforms";
import { View } from "vega-view";
import * as layout from "vega-view-transforms";

Object.assign(transforms, data, encoders, layout);
window.vega = { View, expressionInterpreter, parse };
