import { readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { join } from 'node:path';
import { buildSchema, isInputObjectType, isInterfaceType, isObjectType } from 'graphql';
import ts from 'typescript';
import { z } from 'zod';
import { routes } from '#app/routes.ts';
import { statementTextName, templateName } from './reached.ts';
import { argumentName, declaringType, inputFieldName, parameterName } from './reached-parameters.ts';

const ROOT = join(import.meta.dirname, '../..');

/** An item that a whole test run has to reach: its name in the records, and its label in the list. */
export interface Reachable {
  readonly name: string;
  readonly label: string;
}

/** Returns every `sql` template and every literal text given to `query` in the source, labelled with its location. */
export const statementsOfSource = async (): Promise<Reachable[]> => {
  const found: Reachable[] = [];
  for await (const path of glob('src/**/*.ts', { cwd: ROOT })) {
    const text = readFileSync(join(ROOT, path), 'utf8');
    if (/\bsql[`<]|\.query[(<]/.test(text)) found.push(...statementsIn(path, text));
  }
  return found;
};

const statementsIn = (path: string, text: string): Reachable[] => {
  const found: Reachable[] = [];
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest);
  const add = (node: ts.Node, name: string, words: string): void => {
    const line = file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1;
    found.push({ name, label: `${path}:${line} ${words.replaceAll(/\s+/g, ' ').trim().slice(0, 70)}` });
  };
  const enter = (node: ts.Node): void => {
    if (ts.isTaggedTemplateExpression(node) && ts.isIdentifier(node.tag) && node.tag.text === 'sql') {
      const fragments = fragmentsOf(node.template);
      // A template of only parameters and punctuation names no table or column that could be missing.
      if (/[a-z]/i.test(fragments.join(''))) add(node, templateName(fragments), fragments.join('?'));
    } else if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const [first] = node.arguments;
      if (node.expression.name.text === 'query' && first && ts.isStringLiteralLike(first))
        add(node, statementTextName(first.text), first.text);
    }
    ts.forEachChild(node, enter);
  };
  enter(file);
  return found;
};

const fragmentsOf = (template: ts.TemplateLiteral): string[] =>
  ts.isNoSubstitutionTemplateLiteral(template)
    ? [template.text]
    : [template.head.text, ...template.templateSpans.map(({ literal }) => literal.text)];

/**
 * Returns every parameter of every REST operation, including nested ones. Paging parameters are tested with the kit.
 */
export const restParameters = (): Reachable[] =>
  routes.flatMap((route) =>
    Object.entries(route.shape)
      .filter(([name]) => !route.pathNames.includes(name))
      .flatMap(([name, schema]) => nestedNames(name, schema))
      .map((name) => parameterName(route, name))
      .map((name) => ({ name, label: name })),
  );

const nestedNames = (name: string, schema: z.core.$ZodType): string[] => [name, ...namesBelow(name, schema)];

const namesBelow = (prefix: string, schema: z.core.$ZodType): string[] => {
  if (schema instanceof z.ZodObject)
    return Object.entries(schema.shape).flatMap(([name, each]) => nestedNames(`${prefix}[${name}]`, each));
  if (schema instanceof z.ZodArray) return namesBelow(`${prefix}[]`, schema.element);
  if (schema instanceof z.ZodPipe) return namesBelow(prefix, schema.out);
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((each) => namesBelow(prefix, each));
  const { def } = schema._zod;
  return 'innerType' in def && def.innerType instanceof z.core.$ZodType ? namesBelow(prefix, def.innerType) : [];
};

/** Arguments of every connection and mutation, which are tested with the kit. */
const OF_THE_KIT: ReadonlySet<string> = new Set(['first', 'last', 'before', 'after', 'clientMutationId']);

/** Returns every argument of every GraphQL field, and every field of the input types. */
export const graphqlArguments = (): Reachable[] => {
  const schema = buildSchema(readFileSync(join(ROOT, 'schema/schema.graphql'), 'utf8'));
  return Object.values(schema.getTypeMap())
    .filter(({ name }) => !name.startsWith('__'))
    .flatMap((type) => {
      if (isInputObjectType(type))
        return Object.keys(type.getFields())
          .filter((name) => !OF_THE_KIT.has(name))
          .map((name) => inputFieldName(type.name, name));
      if (!isObjectType(type) && !isInterfaceType(type)) return [];
      const declared = Object.values(type.getFields()).filter(({ name }) => declaringType(type, name) === type.name);
      return declared.flatMap((field) =>
        field.args
          .filter(({ name }) => !OF_THE_KIT.has(name))
          .map(({ name }) => argumentName(type.name, field.name, name)),
      );
    })
    .map((name) => ({ name, label: name }));
};
