<<<<<<<< HEAD:web_dashboard/built/assets/circle-check-BUUBYuzW.js
import{Gr as e,Kr as t}from"./sdk.gen-4K72XfVD.js";import{t as n}from"./Icon-T2yJQO53.js";var r=new Set([`$$slots`,`$$events`,`$$legacy`]);function i(i,a){let o=e(a,r),s={name:`circle-check`,size:24,node:[[`circle`,{cx:`12`,cy:`12`,r:`10`}],[`path`,{d:`m16 9-5.5 5.5L8 12`}]],aliases:[`check-circle-2`]};n(i,t(()=>o,{get icon(){return s}}))}export{i as t};
========
import{Gr as e,Kr as t}from"./sdk.gen-ByJjmyj6.js";import{t as n}from"./Icon-B32NAqiD.js";var r=new Set([`$$slots`,`$$events`,`$$legacy`]);function i(i,a){let o=e(a,r),s={name:`circle-check`,size:24,node:[[`circle`,{cx:`12`,cy:`12`,r:`10`}],[`path`,{d:`m16 9-5.5 5.5L8 12`}]],aliases:[`check-circle-2`]};n(i,t(()=>o,{get icon(){return s}}))}export{i as t};
>>>>>>>> b6479481 (dashboard: keep live pages whole: no approval of the unseen, no form of another object, no silent stream):web_dashboard/built/assets/circle-check-CRnRE2-j.js
